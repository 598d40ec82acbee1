//! The words that identify the values of closed lists. A word never changes; a reader rejects unknown words.

use tuple::{DataType, Unit};

use super::refusal::UnmetRequirements;
use crate::{ArithmeticOperator, ComparisonOperator, SortDirection, TapSelection};

/// A closed list: every value and its word.
pub trait EnumWord: Copy + PartialEq + 'static {
    /// Name of the list.
    const LIST: &'static str;
    /// All values with their words.
    const WORDS: &'static [(Self, &'static str)];

    /// The value's word.
    fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(value, _)| *value == self)
            .map_or("", |(_, word)| word)
    }

    /// The word's value.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(_, known)| *known == word)
            .map(|(value, _)| *value)
    }

    /// The word's value; an unknown word is recorded in `lacks`.
    fn read(word: &str, lacks: &mut UnmetRequirements) -> Option<Self> {
        Self::of_word(word).or_else(|| lacks.word(Self::LIST, word))
    }
}

impl EnumWord for DataType {
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

impl EnumWord for Unit {
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

impl EnumWord for TapSelection {
    const LIST: &'static str = "tap";
    const WORDS: &'static [(TapSelection, &'static str)] = &[
        (TapSelection::Server, "server"),
        (TapSelection::Client, "client"),
        (TapSelection::All, "all"),
        (TapSelection::Ends, "ends"),
    ];
}

impl EnumWord for SortDirection {
    const LIST: &'static str = "order";
    const WORDS: &'static [(SortDirection, &'static str)] = &[
        (SortDirection::Ascending, "ascending"),
        (SortDirection::Descending, "descending"),
    ];
}

impl EnumWord for ComparisonOperator {
    const LIST: &'static str = "comparison";
    const WORDS: &'static [(ComparisonOperator, &'static str)] = &[
        (ComparisonOperator::Eq, "eq"),
        (ComparisonOperator::Ne, "ne"),
        (ComparisonOperator::Lt, "lt"),
        (ComparisonOperator::Le, "le"),
        (ComparisonOperator::Gt, "gt"),
        (ComparisonOperator::Ge, "ge"),
    ];
}

impl EnumWord for ArithmeticOperator {
    const LIST: &'static str = "operator";
    const WORDS: &'static [(ArithmeticOperator, &'static str)] = &[
        (ArithmeticOperator::Add, "add"),
        (ArithmeticOperator::Subtract, "subtract"),
        (ArithmeticOperator::Multiply, "multiply"),
        (ArithmeticOperator::Divide, "divide"),
        (ArithmeticOperator::Ratio, "ratio"),
        (ArithmeticOperator::Remainder, "remainder"),
        (ArithmeticOperator::BitAnd, "bit_and"),
        (ArithmeticOperator::BitOr, "bit_or"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: EnumWord + std::fmt::Debug>(values: usize) {
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
        check::<TapSelection>(TapSelection::Ends as usize + 1);
        check::<SortDirection>(SortDirection::Descending as usize + 1);
        check::<ComparisonOperator>(ComparisonOperator::Ge as usize + 1);
        check::<ArithmeticOperator>(ArithmeticOperator::BitOr as usize + 1);
    }
}
