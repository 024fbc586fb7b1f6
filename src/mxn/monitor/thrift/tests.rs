//! Virtual machines with two CPUs, and what the monitor saves on them.

use super::*;

const MS: u64 = 1_000_000;
const ROUND: u64 = 8 * MS;

/// A runtime with two slots beside another process, in virtual time.
struct Machine {
    /// Turns in a millisecond with both slots, and with one.
    rates: [u64; 2],
    /// What the process has of the CPUs then, in hundredths.
    cpus: [u64; 2],
    /// Each rate is up to so many hundredths too much or too little, for 80 ms at a time.
    noise: u64,
    /// The LWPs wait for CPUs.
    crowded: bool,
    /// How often they run dry in a round, with both slots, and with one.
    dry: [u64; 2],
    ran_dry: u64,
    random: u64,
    /// What is left of each rate at present, in hundredths.
    percent: u64,
    now: Mark,
    thrift: Thrift,
    saved: u32,
}

impl Machine {
    fn new(rates: [u64; 2], cpus: [u64; 2], noise: u64, crowded: bool) -> Self {
        let now = Mark { time: 0, turns: 0, ran: 0, waited: 0 };
        let thrift = Thrift::new();
        let (dry, ran_dry) = ([0, 0], 0);
        Self { rates, cpus, noise, crowded, dry, ran_dry, random: 1, percent: 100, now, thrift, saved: 0 }
    }

    /// Plays for so long. Returns the part of the time that a slot was saved.
    fn play(&mut self, time: u64, calm: bool) -> f64 {
        let mut rounds = [0_u32; 2];
        for _ in 0..time / ROUND {
            if self.now.time.is_multiple_of(10 * ROUND) {
                self.random = self
                    .random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                self.percent = 100 - self.noise + (self.random >> 33) % (2 * self.noise + 1);
            }
            self.now.time += ROUND;
            self.now.turns += self.rates[self.saved as usize] * (ROUND / MS) * self.percent / 100;
            self.now.ran += self.cpus[self.saved as usize] * ROUND / 100;
            self.now.waited += if self.crowded { ROUND / 2 } else { 0 };
            self.ran_dry += self.dry[self.saved as usize];
            let now = self.now;
            self.saved = self.thrift.look(Round { time: now.time, calm, dry: self.ran_dry }, 2, || now);
            rounds[self.saved as usize] += 1;
        }
        f64::from(rounds[1]) / f64::from(rounds[0] + rounds[1])
    }
}

/// An LWP that has more to do with fewer slots may not be calm then, or one may compute now and then.
#[test]
fn a_trial_that_is_broken_off_each_time_is_put_off() {
    for all in [130, 100] {
        let mut machine = Machine::new([140, 155], [all, 100], 0, true);
        let rounds = MINUTES / ROUND;
        let saved: f64 = (0..rounds).map(|_| machine.play(ROUND, machine.saved == 0)).sum();
        assert!((0.000_1..0.01).contains(&(saved / rounds as f64)), "{saved} of {rounds}, {all} of the CPUs");
    }
}

const MINUTES: u64 = 10 * 60_000 * MS;

#[test]
fn a_slot_that_does_not_pay_is_saved() {
    let saved = Machine::new([140, 155], [130, 100], 0, true).play(MINUTES, true);
    assert!(saved > 0.99, "all slots are tried for longer than the slowest of a hundred: {saved}");
    let saved = Machine::new([140, 155], [130, 100], 15, true).play(MINUTES, true);
    assert!(saved > 0.7, "where rates are noisy: {saved}");
}

#[test]
fn a_slot_that_pays_is_tried_without_seldom() {
    let saved = Machine::new([140, 105], [130, 100], 0, true).play(MINUTES, true);
    assert!((0.000_1..0.01).contains(&saved), "{saved}");
    let saved = Machine::new([140, 105], [130, 100], 30, true).play(MINUTES, true);
    assert!(saved < 0.02, "where rates are noisy: {saved}");
}

#[test]
fn a_slot_is_saved_while_two_lwps_share_a_cpu() {
    let mut machine = Machine::new([140, 140], [100, 100], 0, true);
    machine.play(SHORT_STAY, true);
    let saved = machine.play(MINUTES, true);
    assert!(saved > 0.98, "{saved}");
    // Such a stay ends as all do.
    machine.play(ROUND, false);
    assert_eq!(machine.saved, 0);
    let saved = machine.play(4 * SHORT_PAUSE, true);
    assert!(saved > 0.4, "what has been seen before is known: {saved}");
    // Now there is a process that computes, and a second LWP would have half a CPU.
    (machine.rates, machine.cpus) = ([140, 105], [150, 100]);
    machine.play(LONG_STAY, true);
    let saved = machine.play(MINUTES, true);
    assert!(saved < 0.01, "{saved}");
}

/// Turns tell nothing: a client may make as many, or the kernel may have put the LWPs so.
#[test]
fn one_slot_is_enough_while_its_lwp_runs_dry() {
    let mut machine = Machine::new([140, 140], [130, 90], 30, true);
    machine.dry = [4, 2];
    let first = machine.play(10 * SPAN, true);
    assert!(first > 0.8, "{first}");
    let saved = machine.play(MINUTES, true);
    assert!(saved > 0.99, "{saved}");
    // Now it has more to do than one LWP can.
    machine.dry = [4, 0];
    machine.rates = [140, 105];
    assert!(machine.play(MINUTES, true) < 0.01);
    machine.dry = [0, 0];
    machine.play(2 * LONG_PAUSE, true);
    assert_eq!(machine.play(SHORT_PAUSE, true), 0.0);
}

/// Beside a process that computes, two LWPs share a CPU for half of the time.
#[test]
fn a_slot_is_kept_while_two_lwps_share_a_cpu_for_moments() {
    let mut machine = Machine::new([140, 105], [150, 100], 0, true);
    let mut saved = 0.0;
    for turn in 0..100 {
        (machine.rates, machine.cpus) =
            if turn % 2 == 1 { ([140, 105], [150, 100]) } else { ([105, 105], [100, 100]) };
        saved += machine.play(100 * MS, true) / 100.0;
    }
    assert!(saved < 0.06, "{saved}");
}

#[test]
fn what_was_seen_long_ago_is_forgotten() {
    for (pause, knows) in [(ROUND, true), (2 * SHORT_STAY, false)] {
        let mut machine = Machine::new([140, 140], [100, 100], 0, true);
        machine.play(20 * SHORT_STAY, true);
        machine.play(pause, false);
        let saved = machine.play(SHORT_PAUSE + SHORT_LOOKS.1 + 5 * ROUND, true);
        assert_eq!(saved > 0.0, knows, "{saved} after {pause} ns");
    }
}

/// Two of five threads on two CPUs have less than one.
#[test]
fn a_slot_is_kept_beside_many_that_compute() {
    let mut machine = Machine::new([112, 70], [80, 50], 0, true);
    let saved = machine.play(2_000 * MS, true);
    assert!(saved < 0.2, "{saved}");
    let saved = machine.play(MINUTES, true);
    assert!(saved < 0.01, "{saved}");
}

#[test]
fn nothing_is_tried_where_lwps_have_cpus_or_one_computes() {
    assert_eq!(Machine::new([140, 155], [130, 100], 0, false).play(MINUTES, true), 0.0);
    assert_eq!(Machine::new([140, 155], [130, 100], 0, true).play(MINUTES, false), 0.0);
}

#[test]
fn all_slots_are_back_at_the_first_sign() {
    let mut machine = Machine::new([140, 155], [130, 100], 0, true);
    machine.play(500 * MS, true);
    assert_eq!(machine.saved, 1);
    machine.play(ROUND, false);
    assert_eq!(machine.saved, 0);
    assert_eq!(machine.play(SHORT_PAUSE / 2, true), 0.0);
    assert!(machine.play(1_000 * MS, true) > 0.0);
}

#[test]
fn a_slot_that_begins_to_pay_is_back_within_seconds() {
    let mut machine = Machine::new([140, 155], [130, 100], 0, true);
    machine.play(MINUTES, true);
    machine.rates = [140, 105];
    machine.play(LONG_STAY + SHORT_STAY, true);
    assert!(machine.play(MINUTES, true) < 0.01);
}

#[test]
fn the_only_slot_is_kept() {
    let mut thrift = Thrift::new();
    let mark = || Mark { time: 0, turns: 0, ran: 0, waited: 0 };
    let round = |round| Round { time: round * ROUND, calm: true, dry: round };
    assert!((0..1_000).all(|index| thrift.look(round(index), 1, mark) == 0));
}
