//! The loader's list of modules with thread-locals, and a number that tells its states apart.
//!
//! The list (`dtv_slotinfo_list`, described for debuggers) has an element for each module: the module, and a
//! generation. When a module comes to an element or leaves it, the loader stamps the element with the next
//! generation. Elements are never freed, so they can be read without a lock. A new module takes a free
//! element or the one after the last. So a look up to [`AHEAD`] past the last one in use misses nothing, and
//! reads one or two cache lines.
//!
//! **The sum** is over all elements: the generation, times a weight of its element, and the module's address.
//! Without weights, the generations alone came back to an earlier sum. From glibc 2.39 on, an element that is
//! taken again has generation 0 until its module is mapped. If two modules leave with generation 2 each, both
//! get 4, and the next one to come has 0 at first: 2 and 2, as before. The address tells such an element from
//! one that never had a module.
//!
//! An element without a stamp may have the same address and the same 0 again, for another module: if the
//! first could not be loaded, and its memory was used again. So nothing is built while one waits for its
//! stamp ([`Slots::settled_sum`]).
//!
//! A module with thread-locals apart from the block becomes *static* when a module is loaded that needs them
//! in the block. No generation shows that. So for such modules, the place from the loader (`l_tls_offset`,
//! described for debuggers) counts, too ([`Slots::placed`]). It is read only while the sum is that of the
//! table, because then the table's modules are loaded.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::super::unfit::Unfit;
use super::super::symbols::{field, symbol};

/// How far past the last element in use a sum looks. The first module to come takes the next element, so one
/// would do. One more is for a number that a failed `dlopen` has left unused. (With four, a spawn has 12
/// instructions more.)
const AHEAD: usize = 2;

/// What the generations of elements are multiplied by.
const WEIGHTS: [usize; 64] = weights();

/// Where the loader keeps modules and their generations.
#[derive(Debug)]
pub(super) struct Slots {
    /// Address of the pointer to the first piece of the list.
    head: usize,
    length: usize,
    next: usize,
    first: usize,
    slot: usize,
    generation: usize,
    map: usize,
    /// The offset, in the description of a module (`struct link_map`), of the place of its thread-locals in
    /// every block. `None`: this glibc does not tell.
    place: Option<usize>,
    /// How many elements there were at first. Those of the program's own modules have no stamp in some
    /// versions.
    initial: usize,
}

impl Slots {
    pub(super) fn find() -> Result<Self, Unfit> {
        let head = field(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?;
        let first = field(c"_thread_db_dtv_slotinfo_list_slotinfo")?;
        let mut slots = Self {
            head: symbol(c"_rtld_global")?.as_ptr().expose_provenance() + head.offset,
            length: field(c"_thread_db_dtv_slotinfo_list_len")?.offset,
            next: field(c"_thread_db_dtv_slotinfo_list_next")?.offset,
            first: first.offset,
            slot: first.size,
            generation: field(c"_thread_db_dtv_slotinfo_gen")?.offset,
            map: field(c"_thread_db_dtv_slotinfo_map")?.offset,
            place: field(c"_thread_db_link_map_l_tls_offset").ok().map(|field| field.offset),
            initial: 0,
        };
        slots.initial = slots.used();
        Ok(slots)
    }

    /// Returns the addresses of the list's elements, in order.
    #[inline]
    fn each(&self) -> impl Iterator<Item = usize> {
        // Acquire: pairs with the release by which the loader links a piece that it has filled in.
        let mut piece = load(self.head, Ordering::Acquire);
        let mut at = 0;
        std::iter::from_fn(move || {
            while piece != 0 && at == load(piece + self.length, Ordering::Relaxed) {
                piece = load(piece + self.next, Ordering::Acquire);
                at = 0;
            }
            if piece == 0 {
                return None;
            }
            let slot = piece + self.first + at * self.slot;
            at += 1;
            Some(slot)
        })
    }

    /// Returns the address of the element of a module.
    pub(super) fn of(&self, module: usize) -> Option<usize> {
        self.each().nth(module)
    }

    /// Returns the modules, by number, with the addresses of their elements.
    pub(super) fn modules(&self) -> impl Iterator<Item = (usize, usize)> {
        self.each().enumerate().filter(|&(_, slot)| self.read(slot).1 != 0)
    }

    /// Returns the generation and the module of an element.
    #[inline]
    fn read(&self, slot: usize) -> (usize, usize) {
        // Acquire: the module is read afterwards, since the loader writes it before it takes a stamp away.
        // For the rest, these are numbers to compare. A thread that may use a module has it from the thread
        // that loaded it, so it sees the module's stamp.
        let generation = load(slot + self.generation, Ordering::Acquire);
        (generation, load(slot + self.map, Ordering::Relaxed))
    }

    /// Returns what the place of an element's module adds to a signature: 0 while the module has no place.
    ///
    /// # Safety
    /// The module is not unloaded meanwhile.
    #[cold]
    pub(super) unsafe fn placed(&self, slot: usize) -> usize {
        let (_, map) = self.read(slot);
        let Some(place) = self.place.filter(|_| map != 0) else { return 0 };
        // Relaxed: a number to compare. -1 and -2 are the loader's "none yet" and "never".
        match load(map + place, Ordering::Relaxed).cast_signed() {
            -2..=0 => 0,
            place => place.cast_unsigned() << 32,
        }
    }

    /// Returns how many elements there are up to the last that was ever used.
    fn used(&self) -> usize {
        let last = self.each().enumerate().filter(|&(_, slot)| self.read(slot) != (0, 0)).last();
        last.map_or(0, |(index, _)| index + 1)
    }

    /// Returns how many elements a sum must have now, so that it shows each module that comes or goes.
    pub(super) fn to_watch(&self) -> usize {
        self.used() + AHEAD
    }

    /// Returns the sum of so many elements. (Four elements a step make a spawn longer by 41 instructions: the
    /// compiler then calls this.)
    #[inline]
    pub(super) fn sum(&self, watched: usize) -> usize {
        // Acquire: as in `each`.
        let piece = load(self.head, Ordering::Acquire);
        // The first piece has room for dozens of modules. As a rule all are in it, and this is a few loads.
        if watched > WEIGHTS.len() || piece == 0 || watched > load(piece + self.length, Ordering::Relaxed) {
            return self.sum_of_pieces(watched);
        }
        let mut at = piece + self.first;
        let mut sum = 0_usize;
        for &weight in &WEIGHTS[..watched] {
            sum = sum.wrapping_add(term(self.read(at), weight));
            at += self.slot;
        }
        sum
    }

    #[cold]
    fn sum_of_pieces(&self, watched: usize) -> usize {
        let slots = self.each().take(watched).zip(WEIGHTS.iter().cycle());
        slots.fold(0, |sum, (slot, &weight)| sum.wrapping_add(term(self.read(slot), weight)))
    }

    /// Returns the sum of so many elements. `None`: a module waits for its stamp.
    pub(super) fn settled_sum(&self, watched: usize) -> Option<usize> {
        let mut slots = self.each().take(watched).zip(WEIGHTS.iter().cycle()).enumerate();
        slots.try_fold(0_usize, |sum, (index, (slot, &weight))| match self.read(slot) {
            (0, 1..) if index >= self.initial => None,
            read => Some(sum.wrapping_add(term(read, weight))),
        })
    }
}

/// Returns what an element adds to a sum.
#[inline]
fn term((generation, map): (usize, usize), weight: usize) -> usize {
    generation.wrapping_mul(weight).wrapping_add(map)
}

/// Reads a word of the loader's list.
#[inline]
fn load(at: usize, order: Ordering) -> usize {
    // SAFETY: the list is at the address that the loader describes. Its pieces are never freed, and it
    // changes by stores of whole words.
    unsafe { AtomicUsize::from_ptr(ptr::with_exposed_provenance_mut(at)) }.load(order)
}

/// Returns odd numbers that follow no rule that generations follow: the output of SplitMix64.
const fn weights() -> [usize; 64] {
    let mut weights = [0; 64];
    let (mut index, mut state) = (0, 0_u64);
    while index < weights.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        weights[index] = (mixed ^ (mixed >> 31)) as usize | 1;
        index += 1;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of the loader's, with as many elements as there are.
    struct List {
        slots: Slots,
        /// The pointer to the one piece, its length, the pointer to the next, and the elements.
        words: Box<[AtomicUsize]>,
    }

    const WORD: usize = size_of::<usize>();
    /// Addresses of modules.
    const MODULES: [usize; 5] = [0, 0x1000, 0x2000, 0x3000, 0x4000];

    impl List {
        fn of(length: usize) -> Self {
            let words: Box<[AtomicUsize]> = (0..3 + 2 * length).map(|_| AtomicUsize::new(0)).collect();
            let head = words.as_ptr().expose_provenance();
            words[0].store(head + WORD, Ordering::Relaxed);
            words[1].store(length, Ordering::Relaxed);
            let slots = Slots {
                head,
                length: 0,
                next: WORD,
                first: 2 * WORD,
                slot: 2 * WORD,
                generation: 0,
                map: WORD,
                place: None,
                initial: 2,
            };
            Self { slots, words }
        }

        fn set(&self, element: usize, generation: usize, map: usize) {
            self.words[3 + 2 * element].store(generation, Ordering::Relaxed);
            self.words[4 + 2 * element].store(map, Ordering::Relaxed);
        }

        fn sum(&self) -> usize {
            self.slots.sum(8)
        }
    }

    /// The program's own module, which has no stamp, and two with generation 2, then one with 3.
    fn loaded() -> List {
        let list = List::of(64);
        for (element, generation) in [(1, 0), (2, 2), (3, 2), (4, 3)] {
            list.set(element, generation, MODULES[element]);
        }
        list
    }

    /// 2 + 2 + 3 is 0 + 4 + 3, with modules at the same addresses.
    #[test]
    fn a_module_without_a_stamp_does_not_bring_an_old_sum_back() {
        let list = loaded();
        let before = list.sum();
        list.set(3, 4, MODULES[3]);
        list.set(2, 0, MODULES[2]);
        assert_ne!(list.sum(), before);
    }

    #[test]
    fn an_element_that_is_taken_again_is_not_one_that_never_was() {
        let list = loaded();
        let (before, watched) = (list.sum(), list.slots.to_watch());
        assert_eq!(watched, 5 + AHEAD);
        list.set(5, 4, 0x5000);
        list.set(5, 5, 0);
        list.set(5, 0, 0x5000);
        assert_ne!(list.sum(), before);
    }

    #[test]
    fn nothing_is_built_while_a_module_waits_for_its_stamp() {
        let list = loaded();
        assert_eq!(list.slots.settled_sum(8), Some(list.sum()), "the program's own module has none");
        list.set(5, 0, 0x5000);
        assert_eq!(list.slots.settled_sum(8), None);
        list.set(5, 4, 0x5000);
        assert_eq!(list.slots.settled_sum(8), Some(list.sum()));
    }

    #[test]
    fn a_list_in_several_pieces_is_summed_as_one_piece_is() {
        let (one, two) = (List::of(8), List::of(64));
        for list in [&one, &two] {
            list.set(2, 7, MODULES[2]);
            list.set(7, 9, MODULES[3]);
        }
        let rest = List::of(64);
        one.words[2].store(rest.words[0].load(Ordering::Relaxed), Ordering::Relaxed);
        rest.set(1, 11, MODULES[4]);
        two.set(9, 11, MODULES[4]);
        assert_eq!(one.slots.sum(12), two.slots.sum(12));
        assert_eq!(one.slots.to_watch(), 10 + AHEAD);
    }

    #[test]
    fn weights_differ() {
        let different: std::collections::HashSet<_> = WEIGHTS.iter().collect();
        assert_eq!(different.len(), WEIGHTS.len());
    }
}
