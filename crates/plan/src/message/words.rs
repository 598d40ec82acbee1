//! The words that identify the values of closed lists. A word never changes; a reader rejects unknown words.

use tuple::{DataType, Unit};

use super::refused::Lacks;
use crate::{Arithmetic, Compare, Direction, Taps};

/// A closed list: every value and its word.
pub trait Word: Copy + PartialEq + 'static {
    /// Name of the list.
    const LIST: &'static str;
    /// All values with their words.
    const WORDS: &'static [(Self, &'static str)];

    /// The value's word.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word)
    }

    /// The word's value.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(value, _)| *value)
    }

    /// The word's value; an unknown word is recorded in `lacks`.
    fn read(word: &str, lacks: &mut Lacks) -> Option<Self> {
        Self::of_word(word).or_else(|| lacks.word(Self::LIST, word))
    }
}

impl Word for DataType {
    const LIST: &'static str = "type";
    const WORDS: &'static [(DataType, &'static str)] = &[
        (DataType::Bool, "bool"),
        (DataType::U64, "u64"),
        (DataType::I64, "i64"),
        (DataType::F64, "f64"),
        (DataType::Text, "text"),
        (DataType::Ip, "ip"),
        (DataType::Hashes, "hashes"),
        (DataType::Json, "json"),
    ];
}

impl Word for Unit {
    const LIST: &'static str = "unit";
    const WORDS: &'static [(Unit, &'static str)] = &[
        (Unit::None, "none"),
        (Unit::Nanoseconds, "nanoseconds"),
        (Unit::EpochNanoseconds, "epoch_nanoseconds"),
        (Unit::Bytes, "bytes"),
        (Unit::PerSecond, "per_second"),
        (Unit::BytesPerSecond, "bytes_per_second"),
        (Unit::Fraction, "fraction"),
        (Unit::Id, "id"),
    ];
}

impl Word for Taps {
    const LIST: &'static str = "tap";
    const WORDS: &'static [(Taps, &'static str)] =
        &[(Taps::Server, "server"), (Taps::Client, "client"), (Taps::All, "all"), (Taps::Ends, "ends")];
}

impl Word for Direction {
    const LIST: &'static str = "order";
    const WORDS: &'static [(Direction, &'static str)] =
        &[(Direction::Ascending, "ascending"), (Direction::Descending, "descending")];
}

impl Word for Compare {
    const LIST: &'static str = "comparison";
    const WORDS: &'static [(Compare, &'static str)] = &[
        (Compare::Eq, "eq"),
        (Compare::Ne, "ne"),
        (Compare::Lt, "lt"),
        (Compare::Le, "le"),
        (Compare::Gt, "gt"),
        (Compare::Ge, "ge"),
    ];
}

impl Word for Arithmetic {
    const LIST: &'static str = "operator";
    const WORDS: &'static [(Arithmetic, &'static str)] = &[
        (Arithmetic::Add, "add"),
        (Arithmetic::Subtract, "subtract"),
        (Arithmetic::Multiply, "multiply"),
        (Arithmetic::Divide, "divide"),
        (Arithmetic::Ratio, "ratio"),
        (Arithmetic::Remainder, "remainder"),
        (Arithmetic::BitAnd, "bit_and"),
        (Arithmetic::BitOr, "bit_or"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: Word + std::fmt::Debug>(values: usize) {
        assert_eq!(W::WORDS.len(), values, "{}", W::LIST);
        for (value, word) in W::WORDS {
            assert_eq!((value.word(), W::of_word(word)), (*word, Some(*value)));
        }
    }

    /// The numbers are those of the enums, so that a new value requires a new word.
    #[test]
    fn every_value_has_a_word() {
        check::<DataType>(DataType::Json as usize + 1);
        check::<Unit>(Unit::Id as usize + 1);
        check::<Taps>(Taps::Ends as usize + 1);
        check::<Direction>(Direction::Descending as usize + 1);
        check::<Compare>(Compare::Ge as usize + 1);
        check::<Arithmetic>(Arithmetic::BitOr as usize + 1);
    }
}
