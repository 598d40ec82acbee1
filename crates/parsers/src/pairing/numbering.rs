//! Numbers the messages of a round from both ends if some are missing.
//!
//! A round has as many responses as requests, but some of both may be missing. Each hole hides a number of
//! messages between two bounds. So a message's number in its round, counted from the front and from the end,
//! lies between two bounds; and neither side can have more messages than the other side allows. If both
//! bounds are equal, the number is known, and a request and a response with the same number belong together.
//!
//! Example: four requests; of the responses, the first two, a hole, and one. The hole contains one response,
//! so the one after it is the fourth.
//!
//! Independent of bytes and protocols.

/// Bounds of the number of messages missing at one position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MissingRange {
    pub least: u32,
    pub most: u32,
}

impl MissingRange {
    /// Nothing is missing.
    pub const NONE: MissingRange = MissingRange { least: 0, most: 0 };
    /// Any number may be missing.
    pub const ANY: MissingRange = MissingRange {
        least: 0,
        most: u32::MAX,
    };

    /// Missing bytes that consist of whole messages, each at least `smallest` bytes long.
    pub fn of_whole_messages(bytes: u32, smallest: u32) -> MissingRange {
        let most = bytes / smallest.max(1);
        MissingRange {
            least: most.min(1),
            most,
        }
    }

    /// Sum of two holes at the same position.
    pub fn and(self, other: MissingRange) -> MissingRange {
        MissingRange {
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
        }
    }

    /// Any part of the hole, possibly none.
    pub fn in_part(self) -> MissingRange {
        MissingRange { least: 0, ..self }
    }
}

/// Lower and upper bound of a number.
type NumberRange = (u64, u64);

/// Returns the pairs with proven equal numbers, as indices of requests and responses that were seen. The
/// holes are those before each message, and one after the last. `None`: the two sides cannot belong to one
/// round.
pub(super) fn pairs(
    requests: &[MissingRange],
    responses: &[MissingRange],
) -> Option<Vec<(usize, usize)>> {
    let asked = total(requests);
    let told = total(responses);
    let all = (asked.0.max(told.0), asked.1.min(told.1));
    if all.0 > all.1 {
        return None;
    }
    let asked = numbers(requests, all);
    let told = numbers(responses, all);
    let is_one = |range: NumberRange| range.0 == range.1;
    let same = |a: &[NumberRange; 2], b: &[NumberRange; 2]| {
        (0..2).any(|end| is_one(a[end]) && a[end] == b[end])
    };
    let mut pairs = Vec::new();
    let mut next = 0;
    for (q, question) in asked.iter().enumerate() {
        // Earlier responses answer none of the remaining requests.
        while told
            .get(next)
            .is_some_and(|answer| answer[0].1 < question[0].0)
        {
            next += 1;
        }
        let may_be = |r: &usize| told[*r][0].0 <= question[0].1;
        let found = (next..told.len())
            .take_while(may_be)
            .find(|r| same(question, &told[*r]));
        if let Some(r) = found {
            pairs.push((q, r));
            next = r + 1;
        }
    }
    Some(pairs)
}

/// Bounds of the number of messages of one side.
fn total(holes: &[MissingRange]) -> NumberRange {
    let seen = holes.len().saturating_sub(1) as u64;
    holes.iter().fold((seen, seen), |(least, most), hole| {
        (least + u64::from(hole.least), most + u64::from(hole.most))
    })
}

/// Bounds of the number of each message seen, counted from the front and from the end, in a round of `all`.
fn numbers(holes: &[MissingRange], all: NumberRange) -> Vec<[NumberRange; 2]> {
    let (_, seen) = holes.split_last().unwrap_or((&MissingRange::NONE, &[]));
    let whole = total(holes);
    let mut before = (0, 0);
    let mut numbers = Vec::with_capacity(seen.len());
    for hole in seen {
        before = (
            before.0 + u64::from(hole.least),
            before.1 + u64::from(hole.most),
        );
        let after = (whole.0 - before.0 - 1, whole.1 - before.1 - 1);
        let rest = |of: NumberRange| (all.0.saturating_sub(of.1 + 1), all.1 - of.0 - 1);
        let within =
            |range: NumberRange, bound: NumberRange| (range.0.max(bound.0), range.1.min(bound.1));
        numbers.push([within(before, rest(after)), within(after, rest(before))]);
        before = (before.0 + 1, before.1 + 1);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All distributions of `missing` messages over these holes.
    fn worlds(holes: &[MissingRange], missing: u32) -> Vec<Vec<u32>> {
        let Some((first, rest)) = holes.split_first() else {
            return if missing == 0 {
                vec![Vec::new()]
            } else {
                Vec::new()
            };
        };
        (first.least..=first.most.min(missing))
            .flat_map(|here| {
                worlds(rest, missing - here)
                    .into_iter()
                    .map(move |mut world| {
                        world.insert(0, here);
                        world
                    })
            })
            .collect()
    }

    /// Numbers of the messages that were seen.
    fn numbered(world: &[u32]) -> Vec<u32> {
        let mut next = 0;
        let mut out = Vec::new();
        for hole in world {
            next += hole;
            out.push(next);
            next += 1;
        }
        out.pop();
        out
    }

    /// Reference implementation: pairs that are pairs in every world.
    fn obvious(
        requests: &[MissingRange],
        responses: &[MissingRange],
    ) -> Option<Vec<(usize, usize)>> {
        let mut certain: Option<Vec<(usize, usize)>> = None;
        for all in 0..40 {
            let of = |holes: &[MissingRange]| {
                let seen = holes.len() as u32 - 1;
                if all < seen {
                    Vec::new()
                } else {
                    worlds(holes, all - seen)
                }
            };
            for asked in of(requests) {
                for told in of(responses) {
                    let asked = numbered(&asked);
                    let told = numbered(&told);
                    let pairs = asked.iter().enumerate().filter_map(|(q, number)| {
                        Some((q, told.iter().position(|other| other == number)?))
                    });
                    let pairs: Vec<_> = pairs.collect();
                    certain = Some(match certain {
                        None => pairs,
                        Some(before) => before
                            .into_iter()
                            .filter(|pair| pairs.contains(pair))
                            .collect(),
                    });
                }
            }
        }
        certain
    }

    fn holes() -> impl Strategy<Value = Vec<MissingRange>> {
        let hole = prop_oneof![
            3 => Just(MissingRange::NONE),
            1 => (0u32..2, 0u32..3).prop_map(|(least, more)| MissingRange { least, most: least + more }),
        ];
        proptest::collection::vec(hole, 1..6)
    }

    proptest! {
        #[test]
        fn pairs_hold_in_every_possible_assignment(requests in holes(), responses in holes()) {
            let found = pairs(&requests, &responses);
            match obvious(&requests, &responses) {
                None => prop_assert_eq!(found, None),
                Some(certain) => {
                    let found = found.expect("there is a world");
                    for pair in &found {
                        prop_assert!(certain.contains(pair), "{:?} is not in {:?}", pair, certain);
                    }
                    if total(&requests).0 == total(&requests).1 {
                        prop_assert_eq!(found, certain);
                    }
                }
            }
        }
    }

    #[test]
    fn counts_from_both_ends() {
        let o = MissingRange::NONE;
        let hole = MissingRange { least: 1, most: 9 };
        let pairs = |requests: &[MissingRange], responses: &[MissingRange]| {
            super::pairs(requests, responses).unwrap_or_default()
        };
        // The third of four responses is missing, and nothing else.
        assert_eq!(pairs(&[o; 5], &[o, o, hole, o]), [(0, 0), (1, 1), (3, 2)]);
        // Two holes hide one message each, because two are missing.
        assert_eq!(
            pairs(&[o; 7], &[hole, o, hole, o, o]),
            [(1, 0), (2, 1), (4, 2), (5, 3)]
        );
        // Three are missing; one hole hides two.
        assert_eq!(
            pairs(&[o; 9], &[o, hole, o, hole, o, o]),
            [(0, 0), (6, 3), (7, 4)]
        );
        // Requests are missing.
        assert_eq!(pairs(&[o, hole, o], &[o; 4]), [(0, 0), (1, 2)]);
        // More responses than requests.
        assert_eq!(pairs(&[o; 3], &[o; 4]), []);
    }
}
