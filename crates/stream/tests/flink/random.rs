//! Seeded random rows and random expressions over their columns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plan::{
    ArithmeticOperator, CaseSensitivity, Column, ComparisonOperator, Expr, Literal, Predicate,
    TextFunction,
};
use tuple::{DataType, FieldId};

/// The types of the columns.
pub const TYPES: [DataType; 12] = [
    DataType::Bool,
    DataType::Bool,
    DataType::U64,
    DataType::U64,
    DataType::I64,
    DataType::I64,
    DataType::F64,
    DataType::F64,
    DataType::Text,
    DataType::Text,
    DataType::Ip,
    DataType::Ip,
];

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut h = self.0;
        h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^ (h >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn bool(&mut self) -> bool {
        self.chance(50)
    }

    pub fn i64(&mut self) -> i64 {
        let close = [
            0,
            1,
            -1,
            2,
            7,
            -7,
            10,
            63,
            64,
            1000,
            -1000,
            1 << 31,
            1 << 53,
            3_037_000_500,
        ];
        match self.below(6) {
            0 => self.one(&[i64::MIN, i64::MAX, i64::MIN + 1, i64::MAX - 1]),
            1 => self.next() as i64,
            2 => (self.next() >> self.below(64)) as i64,
            _ => self.one(&close),
        }
    }

    pub fn u64(&mut self) -> u64 {
        match self.below(4) {
            0 => self.one(&[
                u64::MAX,
                1 << 63,
                (1 << 63) - 1,
                u64::MAX - 1,
                (1 << 63) + 1,
            ]),
            1 => self.next(),
            2 => self.next() >> self.below(64),
            _ => self.one(&[0, 1, 2, 3, 80, 443, 1000]),
        }
    }

    pub fn f64(&mut self) -> f64 {
        match self.below(4) {
            0 => self.one(&[
                f64::MAX,
                f64::MIN,
                f64::MIN_POSITIVE,
                5e-324,
                1e308,
                -1e300,
                1e-300,
            ]),
            1 => Some(f64::from_bits(self.next()))
                .filter(|v| v.is_finite())
                .unwrap_or(0.5),
            2 => self.i64() as f64 / 8.0,
            _ => self.one(&[0.0, -0.0, 1.0, -1.0, 0.1, 2.5, 3.0, 1e9]),
        }
    }

    pub fn text(&mut self) -> String {
        let whole = [
            "",
            "a",
            "A",
            "abc",
            "a/b/c",
            "/a//b/",
            "ÄÖß",
            "Ꟁꟁ𐕰Σ",
            "İı",
            "ΑΣ",
            "a%b_c\\d",
            "'",
            "x y ",
        ];
        let pieces = [
            "a", "b", "/", "%", "_", "\\", "é", "😀", "\u{fffd}", "\n", "\u{2028}", "'", "Σ", "::",
            ".", "(",
        ];
        match self.below(2) {
            0 => self.one(&whole).into(),
            _ => (0..self.below(8)).map(|_| self.one(&pieces)).collect(),
        }
    }

    pub fn ip(&mut self) -> Ipv6Addr {
        let v4 = [
            "10.0.0.1",
            "10.1.2.3",
            "127.255.255.255",
            "128.0.0.0",
            "255.255.255.255",
            "0.0.0.0",
            "192.168.1.77",
        ];
        let v6 = [
            "::",
            "::1",
            "2001:db8::1",
            "2001:db8:8000::7",
            "fe80::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "7fff::1",
            "8000::",
        ];
        if self.bool() {
            self.one(&v4)
                .parse::<Ipv4Addr>()
                .expect("an address")
                .to_ipv6_mapped()
        } else {
            self.one(&v6).parse().expect("an address")
        }
    }

    fn column(&mut self, data_type: DataType) -> Column {
        let places: Vec<u16> = (0..TYPES.len() as u16)
            .filter(|p| TYPES[usize::from(*p)] == data_type)
            .collect();
        Column {
            input: 0,
            field: FieldId(self.one(&places)),
        }
    }

    fn compare(&mut self) -> ComparisonOperator {
        self.one(&[
            ComparisonOperator::Eq,
            ComparisonOperator::Ne,
            ComparisonOperator::Lt,
            ComparisonOperator::Le,
            ComparisonOperator::Gt,
            ComparisonOperator::Ge,
        ])
    }

    fn net(&mut self) -> Literal {
        let ip = self.ip();
        match ip.to_ipv4_mapped() {
            Some(ip) if self.chance(80) => {
                Literal::Net(IpAddr::V4(ip), self.one(&[0, 1, 8, 9, 12, 24, 31, 32]))
            }
            _ => Literal::Net(
                IpAddr::V6(ip),
                self.one(&[0, 1, 7, 16, 33, 64, 95, 96, 97, 104, 127, 128]),
            ),
        }
    }

    fn literal(&mut self, data_type: DataType) -> Literal {
        match data_type {
            DataType::Bool => Literal::Bool(self.bool()),
            DataType::U64 => Literal::U64(self.u64()),
            DataType::I64 => Literal::I64(self.i64()),
            DataType::F64 => Literal::F64(self.f64()),
            DataType::Ip => self.net(),
            _ => Literal::Text(self.text()),
        }
    }

    fn pattern(&mut self) -> String {
        let pieces = [
            "%", "%", "_", "_", "a", "b", "/", "\\", "\\%", "\\_", "é", "😀", "\n", ".", "Σ", "B",
            "(",
        ];
        (0..self.below(7)).map(|_| self.one(&pieces)).collect()
    }

    /// A condition.
    pub fn predicate(&mut self, depth: usize) -> Predicate {
        let data_type = self.one(&TYPES);
        let column = self.column(data_type);
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Predicate::IsNull(column),
            1 => {
                let literals = (0..self.below(4))
                    .map(|_| self.literal(data_type))
                    .collect();
                Predicate::In { column, literals }
            }
            2 => {
                let column = self.column(DataType::Text);
                let case = self.one(&[CaseSensitivity::Sensitive, CaseSensitivity::Ignored]);
                Predicate::Like {
                    column,
                    pattern: self.pattern(),
                    case,
                }
            }
            3..=5 => {
                let op = match data_type {
                    DataType::Ip => self.one(&[ComparisonOperator::Eq, ComparisonOperator::Ne]),
                    _ => self.compare(),
                };
                Predicate::Compare {
                    column,
                    op,
                    literal: self.literal(data_type),
                }
            }
            6 => Predicate::Not(Box::new(self.predicate(depth - 1))),
            7 => Predicate::And(
                (0..self.below(4))
                    .map(|_| self.predicate(depth - 1))
                    .collect(),
            ),
            _ => Predicate::Or(
                (0..self.below(4))
                    .map(|_| self.predicate(depth - 1))
                    .collect(),
            ),
        }
    }

    fn boxed(&mut self, data_type: DataType, depth: usize) -> Box<Expr> {
        Box::new(self.expression(data_type, depth))
    }

    /// An expression; integers are `I64`.
    pub fn expression(&mut self, data_type: DataType, depth: usize) -> Expr {
        if depth == 0 || self.chance(15) {
            let from = match data_type {
                DataType::I64 => self.one(&[DataType::I64, DataType::U64]),
                other => other,
            };
            return match self.below(20) {
                0..=11 => Expr::Column(self.column(from)),
                12..=18 if data_type == DataType::Ip => {
                    Expr::Literal(Literal::Net(IpAddr::V6(self.ip()), 128))
                }
                _ => Expr::Literal(self.literal(from)),
            };
        }
        let below = depth - 1;
        match self.below(10) {
            0 => {
                let condition = Box::new(self.predicate(2));
                Expr::If(
                    condition,
                    self.boxed(data_type, below),
                    self.boxed(data_type, below),
                )
            }
            1 => {
                let mut list: Vec<Expr> = (0..1 + self.below(3))
                    .map(|_| self.expression(data_type, below))
                    .collect();
                if self.chance(20) {
                    list.insert(self.below(list.len()), Expr::Null);
                }
                Expr::Coalesce(list)
            }
            _ => self.operation(data_type, below),
        }
    }

    fn operation(&mut self, data_type: DataType, below: usize) -> Expr {
        use ArithmeticOperator::{
            Add, BitAnd, BitOr, Divide, Multiply, Ratio, Remainder, Subtract,
        };
        match data_type {
            DataType::Bool => {
                if self.bool() {
                    Expr::Test(Box::new(self.predicate(2)))
                } else {
                    let of = self.one(&[
                        DataType::Bool,
                        DataType::I64,
                        DataType::F64,
                        DataType::Text,
                        DataType::Ip,
                    ]);
                    let other = if of == DataType::F64 {
                        self.one(&[DataType::F64, DataType::I64])
                    } else {
                        of
                    };
                    Expr::Compare(
                        self.boxed(of, below),
                        self.compare(),
                        self.boxed(other, below),
                    )
                }
            }
            DataType::I64 => match self.below(8) {
                0 => Expr::Trunc(
                    self.boxed(DataType::I64, below),
                    self.one(&[1, 2, 7, 1000, 1 << 62, i64::MAX]),
                ),
                1 => Expr::Length(self.boxed(DataType::Text, below)),
                2 => {
                    let mask = Box::new(Expr::Literal(Literal::I64(self.i64())));
                    Expr::Arithmetic(
                        self.boxed(DataType::I64, below),
                        self.one(&[BitAnd, BitOr]),
                        mask,
                    )
                }
                3 => {
                    let op = self.one(&[Divide, Remainder]);
                    let divisor = self.one(&[-1, 0, 1, 2, -2, 1000, i64::MIN, i64::MAX]);
                    Expr::Arithmetic(
                        self.boxed(DataType::I64, below),
                        op,
                        Box::new(Expr::Literal(Literal::I64(divisor))),
                    )
                }
                _ => {
                    let op = self.one(&[Add, Subtract, Multiply, Divide, Remainder]);
                    Expr::Arithmetic(
                        self.boxed(DataType::I64, below),
                        op,
                        self.boxed(DataType::I64, below),
                    )
                }
            },
            DataType::F64 => {
                let a = self.one(&[DataType::F64, DataType::I64]);
                let b = self.one(&[DataType::F64, DataType::F64]);
                match self.below(5) {
                    0 => Expr::Arithmetic(
                        self.boxed(DataType::I64, below),
                        Ratio,
                        self.boxed(DataType::I64, below),
                    ),
                    _ => {
                        let op = self.one(&[Add, Subtract, Multiply, Divide, Ratio]);
                        Expr::Arithmetic(self.boxed(a, below), op, self.boxed(b, below))
                    }
                }
            }
            DataType::Text => {
                let separator = self.one(&["/", "::", "a", "😀", "b/"]);
                let place = self.one(&[1, 2, 3, -1, -2, -3, 0]);
                let function = match self.below(4) {
                    0 => TextFunction::Lower,
                    1 => TextFunction::Upper,
                    _ => TextFunction::Split(separator.into(), place),
                };
                Expr::Text(self.boxed(DataType::Text, below), function)
            }
            other => self.expression(other, 0),
        }
    }
}
