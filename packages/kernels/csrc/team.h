// The threads of the library: work is cut into parts, which the caller and others that wait for it carry out side by side.
//
// Waiting threads turn for milliseconds, so that they are there when the next step comes, as long as nobody else wants their cores;
// where somebody does, they sleep at once.
#pragma once

#include <cstdint>
#include <type_traits>

using PartFunction = void (*)(void* context, int64_t part);

// Carries out parts [0, count), part 0 in the caller's thread; all are done on return. Callers in several threads take turns. A part
// must not wait for another one, since the system may grant fewer threads, nor cut its own work into parts.
void run_parts(int64_t count, PartFunction function, void* context);

template <class Function>
void parallel(int64_t count, Function&& function) {
  using Plain = std::remove_reference_t<Function>;
  run_parts(count, [](void* context, int64_t part) { (*static_cast<Plain*>(context))(part); }, &function);
}
