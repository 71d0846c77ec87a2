// Attention of a tile of rows over `Vector` and operands, which the including file chooses.
//
// For each row, with scores s_j = cap(q . k_j * scale) over the keys j that it sees and m their maximum:
//     out = sum_j exp(s_j - m) v_j / sum_j exp(s_j - m)
// computed over tiles of keys with a running maximum (online softmax, Milakov and Gimelshein 2018; FlashAttention, Dao et
// al. 2022). Scores are kept in units of log2, so that exp is 2**x. All sums are in float32.
//
// Internal linkage throughout: files compiled for different instruction sets must not share a definition.
#pragma once

#include <cmath>
#include <cstring>

#include "key_tile.h"
#include "products.h"

namespace {

constexpr float LOG2_E = 1.44269504f;
constexpr int32_t TILE_VECTORS = TILE_KEYS / Vector::width;

// From q . k to a score in units of log2.
struct ScoreForm {
  float factor;
  float cap;  // 0 is none

  explicit ScoreForm(const OctavoAttention& task)
      : factor(task.soft_cap > 0.0f ? task.scale / task.soft_cap * (2.0f * LOG2_E) : task.scale * LOG2_E), cap(task.soft_cap * LOG2_E) {}

  Vector operator()(Vector product) const {
    const Vector scaled = product * Vector::broadcast(factor);
    if (cap == 0.0f) return scaled;
    // tanh(x) = 1 - 2 / (exp(2 x) + 1)
    const Vector one = Vector::broadcast(1.0f);
    return (one - Vector::broadcast(2.0f) / (scaled.exp2() + one)) * Vector::broadcast(cap);
  }
};

template <class Operands>
void prepare(const AttentionRows& rows, const AttentionScratch& scratch) {
  using T = typename Operands::Stored;
  const OctavoAttention& task = *rows.task;
  const int32_t head_size = task.cache.head_size;
  auto* target = reinterpret_cast<typename Operands::Element*>(scratch.query);
  for (int32_t i = 0; i < rows.count; ++i) {
    const T* source = static_cast<const T*>(task.query.data) + place_of_row(rows, task.query, i);
    Operands::copy_query(source, head_size, target + i * padded_head_size(head_size));
  }
}

// Makes room in one row's state for scores up to `highest`.
inline void raise(float highest, float* values, int32_t padded, float* maximum, float* sum) {
  if (!(highest > *maximum)) return;
  const float factor = exp2f(*maximum - highest);
  const Vector factors = Vector::broadcast(factor);
  for (int32_t d = 0; d < padded; d += Vector::width) (Vector::load(values + d) * factors).store(values + d);
  *sum *= factor;
  *maximum = highest;
}

// Turns the products of one row with `columns` keys, of which it sees some, into weights relative to its running maximum.
template <class Operands>
inline void weigh(const float* products, int32_t columns, KeyRange seen, ScoreForm form, float* values, int32_t padded, float* maximum,
                  float* sum, typename Operands::Element* weights) {
  const Vector nothing = Vector::broadcast(-INFINITY);
  Vector scores[TILE_VECTORS];
  Vector highest = nothing;
  const int32_t vectors = columns / Vector::width;
  for (int32_t v = 0; v < vectors; ++v) {
    const int32_t first = v * Vector::width, last = first + Vector::width;
    scores[v] = form(Vector::load(products + first));
    if (seen.first > first || seen.last < last) {
      const int32_t from = seen.first < first ? 0 : seen.first < last ? seen.first - first : Vector::width;
      const int32_t to = seen.last > last ? Vector::width : seen.last > first ? seen.last - first : 0;
      scores[v] = scores[v].keep(from, to, -INFINITY);
    }
    highest = highest.larger(scores[v]);
  }
  raise(highest.maximum(), values, padded, maximum, sum);
  Vector total = Vector::broadcast(0.0f);
  for (int32_t v = 0; v < vectors; ++v) {
    total = total + Operands::store_weights((scores[v] - Vector::broadcast(*maximum)).exp2(), weights + v * Vector::width);
  }
  *sum += total.sum();
}

// Adds one tile of keys, which begins at key `first` of the sequence, to the state.
template <class Operands>
inline void attend_tile(const AttentionRows& rows, const KeyTile<typename Operands::Stored>& tile, int32_t first,
                        const AttentionScratch& scratch, const AttentionState& state, Ahead<typename Operands::Stored> ahead) {
  using Element = typename Operands::Element;
  const int32_t head_size = rows.task->cache.head_size;
  const int32_t padded = padded_head_size(head_size);
  const int32_t columns = (tile.count + Vector::width - 1) / Vector::width * Vector::width;
  auto* keys = reinterpret_cast<Element*>(scratch.keys);
  auto* values = reinterpret_cast<Element*>(scratch.values);
  auto* weights = reinterpret_cast<Element*>(scratch.weights);
  const auto* query = reinterpret_cast<const Element*>(scratch.query);

  Operands::pack_keys(tile, head_size, keys, &ahead);
  const int32_t query_steps = head_size / Operands::pack;
  const Product<Operands> products = {query, padded, keys, TILE_KEYS * Operands::pack, query_steps, scratch.scores, TILE_KEYS};
  multiply<Operands, false>(products, rows.count, columns);

  const ScoreForm form(*rows.task);
  for (int32_t i = 0; i < rows.count; ++i) {
    ahead.fetch(FETCHED_A_BLOCK);
    const KeyRange seen = visible_keys(rows, rows.first + i);
    Element* weights_of_row = weights + i * TILE_KEYS;
    if (seen.last <= first || seen.first >= first + tile.count) {
      std::memset(weights_of_row, 0, TILE_KEYS * sizeof(Element));
      continue;
    }
    const KeyRange seen_of_tile = {seen.first - first, seen.last - first};
    weigh<Operands>(scratch.scores + i * TILE_KEYS, columns, seen_of_tile, form, state.values + i * padded, padded, state.maxima + i,
                    state.sums + i, weights_of_row);
  }

  Operands::pack_values(tile, head_size, values, &ahead);
  const int32_t steps = (tile.count + Operands::pack - 1) / Operands::pack;
  const Product<Operands> sums = {weights, TILE_KEYS, values, padded * Operands::pack, steps, state.values, padded};
  multiply<Operands, true>(sums, rows.count, padded);
  ahead.fetch_rest();
}

// The keys of one split that some row sees.
inline KeyRange keys_of_split(const AttentionRows& rows, int32_t split) {
  KeyRange seen = {visible_keys(rows, rows.first).first, visible_keys(rows, rows.first + rows.count - 1).last};
  if (seen.first < split * SPLIT_KEYS) seen.first = split * SPLIT_KEYS;
  if (seen.last - SPLIT_KEYS > split * SPLIT_KEYS) seen.last = (split + 1) * SPLIT_KEYS;
  return seen;
}

template <class Operands>
void attend(const AttentionPart& part, const AttentionPart* next_part, const AttentionScratch& scratch, const AttentionState& state) {
  using T = typename Operands::Stored;
  const AttentionRows& rows = part.rows;
  const int32_t head_size = rows.task->cache.head_size;
  std::memset(state.values, 0, sizeof(float) * rows.count * padded_head_size(head_size));
  for (int32_t i = 0; i < rows.count; ++i) {
    state.maxima[i] = -INFINITY;
    state.sums[i] = 0.0f;
  }
  const KeyRange seen = keys_of_split(rows, part.split);
  KeyTile<T> tiles[2];
  int32_t number = 0;
  int32_t first = seen.first / TILE_KEYS * TILE_KEYS;
  find_keys(rows, first, seen, tiles);
  if (!part.is_fetched) Ahead<T>(tiles, head_size).fetch_rest();
  for (; first < seen.last; ++number, first += TILE_KEYS) {
    KeyTile<T>* next = tiles + (number + 1) % 2;
    if (first + TILE_KEYS < seen.last) {
      find_keys(rows, first + TILE_KEYS, seen, next);
    } else if (next_part != nullptr) {
      const KeyRange keys = keys_of_split(next_part->rows, next_part->split);
      find_keys(next_part->rows, keys.first / TILE_KEYS * TILE_KEYS, keys, next);
    } else {
      next = nullptr;
    }
    attend_tile<Operands>(rows, tiles[number % 2], first, scratch, state, Ahead<T>(next, head_size));
  }
}

void join(const AttentionState& state, const AttentionState& next, int32_t num_rows, int32_t head_size) {
  const int32_t padded = padded_head_size(head_size);
  for (int32_t i = 0; i < num_rows; ++i) {
    if (next.sums[i] == 0.0f) continue;  // this row sees none of those keys
    const float highest = state.maxima[i] > next.maxima[i] ? state.maxima[i] : next.maxima[i];
    const float kept = exp2f(state.maxima[i] - highest);
    const float added = exp2f(next.maxima[i] - highest);
    for (int32_t d = i * padded; d < (i + 1) * padded; d += Vector::width) {
      const Vector scaled = Vector::load(state.values + d) * Vector::broadcast(kept);
      Vector::load(next.values + d).multiply_add(Vector::broadcast(added), scaled).store(state.values + d);
    }
    state.sums[i] = state.sums[i] * kept + next.sums[i] * added;
    state.maxima[i] = highest;
  }
}

template <class T>
void finish(const AttentionRows& rows, const AttentionState& state) {
  const OctavoAttention& task = *rows.task;
  const int32_t head_size = task.cache.head_size;
  for (int32_t i = 0; i < rows.count; ++i) {
    T* target = static_cast<T*>(task.out.data) + place_of_row(rows, task.out, i);
    const float* values = state.values + i * padded_head_size(head_size);
    const Vector factor = Vector::broadcast(1.0f / state.sums[i]);
    int32_t d = 0;
    for (; d + Vector::width <= head_size; d += Vector::width) (Vector::load(values + d) * factor).store(target + d);
    if (d < head_size) (Vector::load(values + d) * factor).store_eight(target + d);
  }
}

template <class Operands>
constexpr AttentionKernels KERNELS = {prepare<Operands>, attend<Operands>, join, finish<typename Operands::Stored>};

}  // namespace
