// Turns GGML's blocks of quantized numbers into floats. Layouts: https://github.com/ggml-org/ggml, ggml-common.h.
//
// In every format a block is small integers, and each run of 16 of them has a factor and an offset. Products and sums are rounded
// apart, as everything that reads such files does it: this file is built without fused multiply-adds.
#include "abi.h"
#include "reduced.h"

namespace {

constexpr int RUN = 16;
constexpr int MOST_VALUES = 256;

constexpr float NO_OFFSET = -0.0f;  // keeps the sign of zero

struct Block {
  int8_t numbers[MOST_VALUES];
  float factors[MOST_VALUES / RUN];
  float offsets[MOST_VALUES / RUN];
};

float half_at(const uint8_t* bytes) {
  Float16 half;
  std::memcpy(&half, bytes, sizeof half);
  return widen(half);
}

void spread(float factor, float offset, Block& block) {
  block.factors[0] = block.factors[1] = factor;
  block.offsets[0] = block.offsets[1] = offset;
}

// Low halves of 16 bytes, then high halves; 16 more where a number's bit of `fifth` is set, and all less by `base`.
void read_nibbles(const uint8_t* bytes, uint32_t fifth, int base, int8_t* numbers) {
  for (int i = 0; i < 16; ++i) {
    numbers[i] = static_cast<int8_t>((bytes[i] & 15) + static_cast<int>(fifth >> i & 1u) * 16 - base);
    numbers[16 + i] = static_cast<int8_t>((bytes[i] >> 4) + static_cast<int>(fifth >> (16 + i) & 1u) * 16 - base);
  }
}

template <bool HAS_OFFSET, bool HAS_FIFTH>
struct Nibbles {
  static constexpr int VALUES = 32, START = HAS_OFFSET ? 4 : 2, BYTES = START + (HAS_FIFTH ? 4 : 0) + 16;
  static void read(const uint8_t* bytes, Block& block) {
    uint32_t fifth = 0;
    if (HAS_FIFTH) std::memcpy(&fifth, bytes + START, sizeof fifth);
    read_nibbles(bytes + BYTES - 16, fifth, HAS_OFFSET ? 0 : HAS_FIFTH ? 16 : 8, block.numbers);
    spread(half_at(bytes), HAS_OFFSET ? half_at(bytes + 2) : NO_OFFSET, block);
  }
};

struct Q8 {
  static constexpr int VALUES = 32, BYTES = 34;
  static void read(const uint8_t* bytes, Block& block) {
    std::memcpy(block.numbers, bytes + 2, VALUES);
    spread(half_at(bytes), NO_OFFSET, block);
  }
};

// numbers[128 * h + 32 * k + i] is the pair of bits k of byte 32 * h + i.
void read_pairs(const uint8_t* bytes, int8_t* numbers) {
  for (int h = 0; h < 2; ++h, bytes += 32) {
    for (int k = 0; k < 4; ++k, numbers += 32) {
      for (int i = 0; i < 32; ++i) numbers[i] = static_cast<int8_t>(bytes[i] >> (2 * k) & 3);
    }
  }
}

// Low halves of `COUNT` bytes, then their high halves; and so on to the end of the block.
template <int COUNT>
void read_halves(const uint8_t* bytes, int8_t* numbers) {
  for (int first = 0; first < MOST_VALUES; first += 2 * COUNT, bytes += COUNT) {
    for (int i = 0; i < COUNT; ++i) numbers[first + i] = static_cast<int8_t>(bytes[i] & 15);
    for (int i = 0; i < COUNT; ++i) numbers[first + COUNT + i] = static_cast<int8_t>(bytes[i] >> 4);
  }
}

// Adds `step` to number 32 * k + i where bit k of byte i is set.
void add_bits(const uint8_t* bytes, int step, int8_t* numbers) {
  for (int k = 0; k < 8; ++k, numbers += 32) {
    for (int i = 0; i < 32; ++i) numbers[i] = static_cast<int8_t>(numbers[i] + (bytes[i] >> k & 1) * step);
  }
}

struct Q2K {
  static constexpr int VALUES = 256, BYTES = 84;
  static void read(const uint8_t* bytes, Block& block) {
    const float factor = half_at(bytes + 80), offset = half_at(bytes + 82);
    read_pairs(bytes + 16, block.numbers);
    for (int run = 0; run < VALUES / RUN; ++run) {
      block.factors[run] = factor * static_cast<float>(bytes[run] & 15);
      block.offsets[run] = -(offset * static_cast<float>(bytes[run] >> 4));
    }
  }
};

struct Q3K {
  static constexpr int VALUES = 256, BYTES = 110;
  static void read(const uint8_t* bytes, Block& block) {
    const uint8_t* scales = bytes + 96;
    const float factor = half_at(bytes + 108);
    read_pairs(bytes + 32, block.numbers);
    add_bits(bytes, 4, block.numbers);
    for (int8_t& number : block.numbers) number = static_cast<int8_t>(number - 4);
    for (int run = 0; run < VALUES / RUN; ++run) {
      const int low = run < 8 ? scales[run] & 15 : scales[run - 8] >> 4;
      const int high = scales[8 + run % 4] >> (run / 4 * 2) & 3;
      block.factors[run] = factor * static_cast<float>((low | high << 4) - 32);
      block.offsets[run] = NO_OFFSET;
    }
  }
};

// Six bits of factor and offset for each 32 numbers.
void read_six_bits(const uint8_t* bytes, float factor, float offset, Block& block) {
  for (int i = 0; i < 8; ++i) {
    const int scale = i < 4 ? bytes[i] & 63 : (bytes[i + 4] & 15) | bytes[i - 4] >> 6 << 4;
    const int minimum = i < 4 ? bytes[i + 4] & 63 : bytes[i + 4] >> 4 | bytes[i] >> 6 << 4;
    block.factors[2 * i] = block.factors[2 * i + 1] = factor * static_cast<float>(scale);
    block.offsets[2 * i] = block.offsets[2 * i + 1] = -(offset * static_cast<float>(minimum));
  }
}

template <bool HAS_FIFTH>
struct Q45K {
  static constexpr int VALUES = 256, BYTES = HAS_FIFTH ? 176 : 144;
  static void read(const uint8_t* bytes, Block& block) {
    read_halves<32>(bytes + BYTES - 128, block.numbers);
    if (HAS_FIFTH) add_bits(bytes + 16, 16, block.numbers);
    read_six_bits(bytes + 4, half_at(bytes), half_at(bytes + 2), block);
  }
};

struct Q6K {
  static constexpr int VALUES = 256, BYTES = 210;
  static void read(const uint8_t* bytes, Block& block) {
    const float factor = half_at(bytes + 208);
    int8_t high[VALUES];
    read_halves<64>(bytes, block.numbers);
    read_pairs(bytes + 128, high);
    for (int i = 0; i < VALUES; ++i) block.numbers[i] = static_cast<int8_t>(block.numbers[i] + high[i] * 16 - 32);
    for (int run = 0; run < VALUES / RUN; ++run) {
      block.factors[run] = factor * static_cast<float>(static_cast<int8_t>(bytes[192 + run]));
      block.offsets[run] = NO_OFFSET;
    }
  }
};

template <class Format>
int32_t decode(const OctavoBlocks& task) {
  const auto* bytes = static_cast<const uint8_t*>(task.blocks);
  float* out = task.out;
  Block block;
  for (int64_t i = 0; i < task.num_blocks; ++i, bytes += Format::BYTES, out += Format::VALUES) {
    Format::read(bytes, block);
    for (int run = 0; run < Format::VALUES / RUN; ++run) {
      for (int k = run * RUN; k < (run + 1) * RUN; ++k) {
        out[k] = static_cast<float>(block.numbers[k]) * block.factors[run] + block.offsets[run];
      }
    }
  }
  return OCTAVO_OK;
}

}  // namespace

int32_t octavo_dequantize(const OctavoBlocks* task) {
  if (task->num_blocks < 0) return OCTAVO_BAD_ARGUMENT;
  switch (task->format) {
    case OCTAVO_Q4_0: return decode<Nibbles<false, false>>(*task);
    case OCTAVO_Q4_1: return decode<Nibbles<true, false>>(*task);
    case OCTAVO_Q5_0: return decode<Nibbles<false, true>>(*task);
    case OCTAVO_Q5_1: return decode<Nibbles<true, true>>(*task);
    case OCTAVO_Q8_0: return decode<Q8>(*task);
    case OCTAVO_Q2_K: return decode<Q2K>(*task);
    case OCTAVO_Q3_K: return decode<Q3K>(*task);
    case OCTAVO_Q4_K: return decode<Q45K<false>>(*task);
    case OCTAVO_Q5_K: return decode<Q45K<true>>(*task);
    case OCTAVO_Q6_K: return decode<Q6K>(*task);
    default: return OCTAVO_BAD_ARGUMENT;
  }
}
