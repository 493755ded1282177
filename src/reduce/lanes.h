// Arithmetic on one vector of lanes: how elements become lanes of their accumulator and back, how two vectors combine,
// how a result is divided.
//
// Compiled once per instruction set, in a namespace of that name. Nothing here may call an inline function of another
// namespace, std:: included: the linker keeps one copy of such a function for the whole program, and it could be the
// one that was compiled for instructions that the processor lacks.

#ifndef TUTTI_SRC_REDUCE_LANES_H_
#define TUTTI_SRC_REDUCE_LANES_H_

#ifndef TUTTI_INSTRUCTION_SET
#error "Define TUTTI_INSTRUCTION_SET, the namespace of the kernels, before including this header."
#endif

#ifdef __FAST_MATH__
#error "The kernels need IEEE arithmetic: do not compile them with -ffast-math."
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tutti::TUTTI_INSTRUCTION_SET {

// With AVX-512 as well: 64 bytes would gain nothing, as the second-level cache is the limit already, and lost a tenth
// of the bandwidth of DRAM on Zen 4. What it does gain are masks, logic of three operands and narrowing.
#if defined(__AVX2__)
inline constexpr size_t kVectorBytes = 32;
#else
inline constexpr size_t kVectorBytes = 16;
#endif

// Formats of elements in memory that are no arithmetic type of C++.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};

template <typename T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<Float16> {
  using type = uint16_t;
};
template <>
struct StoredAs<BFloat16> {
  using type = uint16_t;
};
template <>
struct StoredAs<Bool> {
  using type = uint8_t;
};

template <typename T, size_t kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * kLanes)));
};

// How many elements are worked on at once: as many accumulators as fill a register.
template <typename Acc>
inline constexpr size_t kLanes = kVectorBytes / sizeof(Acc);
template <typename Acc>
using Lanes = typename VectorOf<Acc, kLanes<Acc>>::type;
// As many elements of format T.
template <typename T, typename Acc>
using Elements = typename VectorOf<typename StoredAs<T>::type, kLanes<Acc>>::type;

// The integer lanes of the same size as those of a floating-point type.
using Bits32 = Lanes<uint32_t>;
using Bits64 = Lanes<uint64_t>;
template <typename Acc>
using Bits = std::conditional_t<sizeof(Acc) == 4, Bits32, Bits64>;

// Decode: elements to lanes.

// What compilers make of __builtin_convertvector between 16 and 32 bits takes several instructions more.
inline Bits32 WidenBits(Elements<BFloat16, float> x) {
#if defined(__AVX2__)
  return (Bits32)_mm256_cvtepu16_epi32((__m128i)x);
#else
  return __builtin_convertvector(x, Bits32);
#endif
}

inline Lanes<float> WidenBFloat16(Elements<BFloat16, float> x) { return (Lanes<float>)(WidenBits(x) << 16); }

inline Lanes<float> WidenFloat16(Elements<Float16, float> x) {
#if defined(__F16C__)
  return (Lanes<float>)_mm256_cvtph_ps((__m128i)x);
#else
  using Signed32 = Lanes<int32_t>;
  const Bits32 wide = __builtin_convertvector(x, Bits32);
  const Bits32 magnitude = wide & 0x7fff;
  const Bits32 normal = (magnitude << 13) + (112u << 23);  // exponent bias 127 instead of 15
  const Bits32 infinite_or_nan = (magnitude << 13) | 0x7f800000;
  const Bits32 denormal = (Bits32)(__builtin_convertvector((Signed32)magnitude, Lanes<float>) * 0x1p-24f);
  const Bits32 finite = magnitude < 0x400 ? denormal : normal;
  return (Lanes<float>)((magnitude < 0x7c00 ? finite : infinite_or_nan) | ((wide & 0x8000) << 16));
#endif
}

template <typename In, typename Acc>
Lanes<Acc> Decode(Elements<In, Acc> x) {
  if constexpr (std::is_same_v<In, BFloat16>) {
    return WidenBFloat16(x);
  } else if constexpr (std::is_same_v<In, Float16>) {
    return WidenFloat16(x);
  } else if constexpr (std::is_same_v<In, Bool>) {
    return (Lanes<Acc>)(x != 0) & 1;
  } else if constexpr (std::is_same_v<In, Acc>) {
    return x;
  } else {
    return __builtin_convertvector(x, Lanes<Acc>);
  }
}

// Encode: lanes to elements.

// Which operand's NaN survives an addition depends on the compiler's choice of operand order, and the sign of Inf - Inf
// on the processor; so every NaN is replaced by the same quiet one.
template <typename Acc>
Lanes<Acc> CanonicalNaN(Lanes<Acc> x) {
  const auto bits = Bits<Acc>{} + (sizeof(Acc) == 4 ? 0x7fc00000 : 0x7ff8000000000000);
  return x == x ? x : (Lanes<Acc>)bits;
}

inline Elements<BFloat16, float> NarrowBits(Bits32 x) {
#if defined(__AVX512VL__)
  return (Elements<BFloat16, float>)_mm256_cvtepi32_epi16((__m256i)x);
#else
  return __builtin_convertvector(x, Elements<BFloat16, float>);
#endif
}

// Round to nearest even. A NaN must be the canonical one.
inline Elements<BFloat16, float> NarrowToBFloat16(Lanes<float> x) {
  const Bits32 bits = (Bits32)x;
  return NarrowBits((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline Elements<Float16, float> NarrowToFloat16(Lanes<float> x) {
#if defined(__F16C__)
  return (Elements<Float16, float>)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
  const Bits32 magnitude = (Bits32)x & 0x7fffffff;
  const Bits32 normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // The unit in the last place of 0.5 is the smallest denormal, so the addition rounds to a multiple of it.
  const Bits32 denormal = (Bits32)((Lanes<float>)magnitude + 0.5f) - 0x3f000000;
  const Bits32 infinite_or_nan = magnitude > 0x7f800000 ? Bits32{} + 0x7e00 : Bits32{} + 0x7c00;
  const Bits32 finite = magnitude < (113u << 23) ? denormal : normal;         // below 2^-14
  const Bits32 result = magnitude < (143u << 23) ? finite : infinite_or_nan;  // below 2^16
  return __builtin_convertvector(result | (((Bits32)x >> 16) & 0x8000), Elements<Float16, float>);
#endif
}

template <typename Out, typename Acc>
Elements<Out, Acc> Encode(Lanes<Acc> x) {
  if constexpr (std::is_same_v<Out, BFloat16>) {
    return NarrowToBFloat16(CanonicalNaN<Acc>(x));
  } else if constexpr (std::is_same_v<Out, Float16>) {
    return NarrowToFloat16(CanonicalNaN<Acc>(x));
  } else if constexpr (std::is_floating_point_v<Out>) {
    return CanonicalNaN<Acc>(x);
  } else if constexpr (std::is_same_v<Out, Acc> || std::is_same_v<Out, Bool>) {
    return x;
  } else {
    return __builtin_convertvector(x, Elements<Out, Acc>);
  }
}

// Operators. Integers that may overflow are unsigned here, so that they wrap.

struct Sum {
  template <typename Acc>
  static Lanes<Acc> Combine(Lanes<Acc> a, Lanes<Acc> b) {
    return a + b;
  }
};

struct Product {
  template <typename Acc>
  static Lanes<Acc> Combine(Lanes<Acc> a, Lanes<Acc> b) {
    return a * b;
  }
};

struct Min {
  template <typename Acc>
  static Lanes<Acc> Combine(Lanes<Acc> a, Lanes<Acc> b) {
    if constexpr (std::is_floating_point_v<Acc>) {
      // What is neither less nor greater is equal, of which "or" yields -0 if there is one, or has a NaN, which stays
      // one: its exponent and at least one more bit remain set.
      const auto neither = (Lanes<Acc>)((Bits<Acc>)a | (Bits<Acc>)b);
      return a < b ? a : (b < a ? b : neither);
    } else {
      return a < b ? a : b;
    }
  }
};

struct Max {
  template <typename Acc>
  static Lanes<Acc> Combine(Lanes<Acc> a, Lanes<Acc> b) {
    if constexpr (std::is_floating_point_v<Acc>) {
      // As for Min, but the sign is set only if both are.
      const auto x = (Bits<Acc>)a;
      const auto y = (Bits<Acc>)b;
      const auto below_sign = (Bits<Acc>{} - 1) >> 1;
      const auto neither = (Lanes<Acc>)((x | y) & ((x & y) | below_sign));
      return a > b ? a : (b > a ? b : neither);
    } else {
      return a > b ? a : b;
    }
  }
};

struct BitAnd {
  template <typename Acc>
  static Lanes<Acc> Combine(Lanes<Acc> a, Lanes<Acc> b) {
    return a & b;
  }
};

struct BitOr {
  template <typename Acc>
  static Lanes<Acc> Combine(Lanes<Acc> a, Lanes<Acc> b) {
    return a | b;
  }
};

struct BitXor {
  template <typename Acc>
  static Lanes<Acc> Combine(Lanes<Acc> a, Lanes<Acc> b) {
    return a ^ b;
  }
};

// Scales: what is done to the result of the tree.

struct Unscaled {
  explicit Unscaled(double) {}

  template <typename Acc>
  Lanes<Acc> Apply(Lanes<Acc> x) const {
    return x;
  }
};

// Divides floating-point lanes. A multiplication by a reciprocal that is exact has the same bits and is cheaper.
template <typename Acc>
class FloatScale {
 public:
  explicit FloatScale(double divisor) : factor_(static_cast<Acc>(divisor)) {
    const double rounded = factor_;
    uint64_t bits;
    __builtin_memcpy(&bits, &rounded, sizeof(bits));
    const bool power_of_two = (bits << 12) == 0;
    const Acc inverse = 1 / factor_;
    multiply_ = power_of_two && inverse - inverse == 0;
    if (multiply_) factor_ = inverse;
  }

  template <typename>
  Lanes<Acc> Apply(Lanes<Acc> x) const {
    return multiply_ ? x * factor_ : x / factor_;
  }

 private:
  Acc factor_;
  bool multiply_;
};

// Divides lanes that hold integers of type T, toward zero.
template <typename T>
class IntegerScale {
 public:
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;

  explicit IntegerScale(double divisor) : divisor_(static_cast<Wide>(divisor)) {}

  template <typename Acc>
  Lanes<Acc> Apply(Lanes<Acc> x) const {
    static_assert(sizeof(Acc) == sizeof(T));
    for (size_t i = 0; i < kLanes<Acc>; ++i) x[i] = static_cast<Acc>(static_cast<T>(x[i]) / divisor_);
    return x;
  }

 private:
  Wide divisor_;
};

}  // namespace tutti::TUTTI_INSTRUCTION_SET

#endif  // TUTTI_SRC_REDUCE_LANES_H_
