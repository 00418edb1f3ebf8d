// SPDX-License-Identifier: Apache-2.0
//
// RowMeeting: how the kPieces blocks that share a row tell each other their parts of it inside one
// launch. All blocks of the launch must be resident at once (a cooperative launch), since they wait
// for each other. It needs no memory of the caller's and nothing set up before a launch: they meet
// at one of kPlaces places in the program's own memory, all of it zero whenever no launch runs and
// none was given up (on CUDA the context is lost with it; the host device's module is then spent).
//
// Every block has a seat, by its piece, at a place that follows from dst and the row.
// 1. join: it takes its empty seat; then it makes the place its row's, or finds that it is that
//    already and that nobody has left it. Else it gives the seat up and tries again later.
// 2. publish: it lays its part on its seat, in words that tell by one bit that they are there.
// 3. collect: it waits until there is a part on every seat, and reads all.
// 4. leave: it counts itself out. The last of kPieces empties all seats, then frees the place.
//
// Why that is right. Call members of a row's tenure the blocks that passed 1 in it: each keeps its
// own seat until the tenure ends. Nobody leaves before all seats have a part, and parts are
// members' alone, so there are then kPieces members, one a piece; once one has left, 1 lets nobody
// in; so the kPieces-th to leave is the last member, and no seat is emptied under a reader.
// - Graph replay, the next launch of the stream: the last member zeroes all before the launch ends.
// - Other rows at the place, of this launch or another stream's: whoever holds a place has
//   published every row before, and all blocks of its launch come to run [1], so that a tenure
//   waits for no other place and ends; so does a wait in 1. Rows share no byte and have
//   2^kRowShift at least, so that the key tells them apart.
// - One dst from two streams at once, a race of the caller's: a tenure takes one block a piece, of
//   whichever launch; each launch has as many blocks a piece as the other, so the last tenure fills
//   up as well. What dst holds then is undefined, but it does not hang, and no other row is
//   touched.
// [1] CUDA programming guide (and libcu++), C++ execution model, device threads: once a thread of a
//   cooperative grid makes progress, all threads of its grid shall.
// The fold goes by seats, not by arrival, so that results are the same from run to run.
#pragma once

#include "reduce.cuh"
#include "simt_atomic.cuh"

namespace rs {

constexpr int kPlaces = 64;
constexpr int kRowShift = 10;
constexpr u64 kLeftBits = 16;  // low bits of MeetingPlace::row: the blocks that have left

template <class Acc, int kPieces>
struct alignas(128) MeetingPlace {
  static constexpr int kWords = sizeof(Acc) / 4;  // of a part
  u64 row;                                        // 0: free
  u64 unused[15];  // the count is not to disturb those who read seats
  u64 seats[kPieces * kWords];
};

template <class Acc, int kPieces>
ROWSMITH_PERSISTENT MeetingPlace<Acc, kPieces> meeting_places[kPlaces];

// Of one block at one row. Every member but collect() is for one thread of the block, the same.
template <class Acc, int kPieces>
struct RowMeeting {
  using Place = MeetingPlace<Acc, kPieces>;
  static constexpr int kLaneParts = (kPieces + 31) / 32;
  // A seat's first word: empty, taken, or with this bit and the rest of the part's.
  static constexpr u64 kEmpty = 0, kTaken = 1, kHere = u64{1} << 63;
  static_assert(kPieces < 1 << kLeftBits, "they are counted in the low bits");

  Place& place;
  const u64 key;
  u64* const seat;

  // `dst` is the launch's: its rows lie at places in turn. `row_begin`: of the row, in dst.
  ROWSMITH_DEVICE RowMeeting(const void* dst, i64 row, const void* row_begin, int piece)
      : place(meeting_places<Acc, kPieces>[place_of(dst, row)]),
        key(reinterpret_cast<u64>(row_begin) >> kRowShift << kLeftBits),
        seat(place.seats + piece * Place::kWords) {}

  ROWSMITH_DEVICE void join() const {
    while (!try_join()) {
      do {
        spin_pause();
      } while (!may_join(load_word(&place.row)));
    }
  }

  // The sum is never negative: its sign says that the part is here.
  ROWSMITH_DEVICE void publish(const Part<Acc>& part) const {
    if constexpr (sizeof(Acc) == 4) {
      store_word(seat, kHere | u64{as_u32(part.sum)} << 32 | as_u32(part.reference));
    } else {
      store_word(seat + 1, bits_of(part.reference));
      fence();
      store_word(seat, kHere | bits_of(part.sum));
    }
  }

  // For all lanes of a warp, after a barrier behind join(): lane i gets the parts i, i + 32 .. of
  // the row, as fold_lanes wants.
  ROWSMITH_DEVICE void collect(Part<Acc> (&parts)[kLaneParts]) const {
    const int lane = thread_index() % 32;
    u64 words[kLaneParts];
    while (!read_seats(lane, words)) spin_pause();
    if constexpr (sizeof(Acc) == 8) fence();
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneParts; ++k) {
      const int at = k * 32 + lane;
      if (at >= kPieces) {
        parts[k] = Part<Acc>{minus_infinity<Acc>(), Acc(0)};
      } else if constexpr (sizeof(Acc) == 4) {
        const u32 sum = static_cast<u32>(words[k] >> 32) & 0x7fffffffu;
        parts[k] = Part<Acc>{as_f32(static_cast<u32>(words[k])), as_f32(sum)};
      } else {
        const u64 reference = load_word(place.seats + at * 2 + 1);
        parts[k] = Part<Acc>{value_of(reference), value_of(words[k] & ~kHere)};
      }
    }
  }

  // After a barrier behind collect().
  ROWSMITH_DEVICE void leave() const {
    if (atomic_add(&place.row, 1) != key + (kPieces - 1)) return;
    // Whoever finds a seat empty again must find that the others have left.
    fence();
    for (int i = 0; i < kPieces; ++i) store_word(place.seats + i * Place::kWords, kEmpty);
    fence();
    store_word(&place.row, 0);
  }

 private:
  ROWSMITH_DEVICE static int place_of(const void* dst, i64 row) {
    const u64 mixed = (reinterpret_cast<u64>(dst) >> kRowShift) * 0x9e3779b97f4a7c15u;
    return static_cast<int>(((mixed >> 32) + static_cast<u64>(row)) % kPlaces);
  }
  ROWSMITH_DEVICE bool may_join(u64 row) const { return row == 0 || row == key; }
  ROWSMITH_DEVICE bool try_join() const {
    if (atomic_cas(seat, kEmpty, kTaken) != kEmpty) return false;
    if (may_join(atomic_cas(&place.row, 0, key))) return true;
    store_word(seat, kEmpty);
    return false;
  }
  ROWSMITH_DEVICE bool read_seats(int lane, u64 (&words)[kLaneParts]) const {
    bool here = true;
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneParts; ++k) {
      const int at = k * 32 + lane;
      words[k] = at < kPieces ? load_word(place.seats + at * Place::kWords) : kHere;
    }
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneParts; ++k) here = here && words[k] >= kHere;
    return here;
  }
  ROWSMITH_DEVICE static u64 bits_of(double value) {
    return u64{hi_word(value)} << 32 | lo_word(value);
  }
  ROWSMITH_DEVICE static double value_of(u64 bits) {
    return as_f64(static_cast<u32>(bits), static_cast<u32>(bits >> 32));
  }
};

}  // namespace rs
