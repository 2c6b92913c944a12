//! Types of tensors.

/// A type of tensor that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// 32-bit floats.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper halves of 32-bit floats.
    Bf16,
    /// 4 bits, a scale for 32.
    Q4_0,
    /// 4 bits, a scale and a minimum for 32.
    Q4_1,
    /// 5 bits, a scale for 32.
    Q5_0,
    /// 5 bits, a scale and a minimum for 32.
    Q5_1,
    /// 8 bits, a scale for 32.
    Q8_0,
    /// 4 bits, a scale and a minimum of 6 bits for 32.
    Q4K,
    /// 5 bits, a scale and a minimum of 6 bits for 32.
    Q5K,
    /// 6 bits, a scale of 8 bits for 16.
    Q6K,
}

/// Types that are known and not read, with their numbers.
const OTHERS: [(u32, &str); 22] = [
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// Those whose numbers stand in blocks.
    pub fn blocks() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.block() > 1)
    }

    /// The type with a number of the file.
    ///
    /// # Errors
    /// When it is not read, with its name.
    pub fn of_number(number: u32) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.number() == number);
        found.ok_or_else(|| {
            let known = OTHERS.iter().find(|(other, _)| *other == number);
            let name = known.map_or_else(|| format!("number {number}"), |(_, name)| (*name).into());
            let read: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("the type {name} is not supported; supported: {}", read.join(", "))
        })
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Kind::F32 => 0,
            Kind::F16 => 1,
            Kind::Q4_0 => 2,
            Kind::Q4_1 => 3,
            Kind::Q5_0 => 6,
            Kind::Q5_1 => 7,
            Kind::Q8_0 => 8,
            Kind::Q4K => 12,
            Kind::Q5K => 13,
            Kind::Q6K => 14,
            Kind::Bf16 => 30,
        }
    }

    /// Its name in ggml.
    pub fn name(self) -> &'static str {
        match self {
            Kind::F32 => "F32",
            Kind::F16 => "F16",
            Kind::Bf16 => "BF16",
            Kind::Q4_0 => "Q4_0",
            Kind::Q4_1 => "Q4_1",
            Kind::Q5_0 => "Q5_0",
            Kind::Q5_1 => "Q5_1",
            Kind::Q8_0 => "Q8_0",
            Kind::Q4K => "Q4_K",
            Kind::Q5K => "Q5_K",
            Kind::Q6K => "Q6_K",
        }
    }

    /// The type with a name of ggml.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The last part of a tensor's name: `weight` where numbers are stored one by one, else the type.
    pub fn suffix(self) -> &'static str {
        match self {
            Kind::F32 | Kind::F16 | Kind::Bf16 => "weight",
            Kind::Q4_0 => "q4_0",
            Kind::Q4_1 => "q4_1",
            Kind::Q5_0 => "q5_0",
            Kind::Q5_1 => "q5_1",
            Kind::Q8_0 => "q8_0",
            Kind::Q4K => "q4_k",
            Kind::Q5K => "q5_k",
            Kind::Q6K => "q6_k",
        }
    }

    /// Numbers of a block.
    pub fn block(self) -> usize {
        match self {
            Kind::F32 | Kind::F16 | Kind::Bf16 => 1,
            Kind::Q4K | Kind::Q5K | Kind::Q6K => 256,
            _ => 32,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Kind::F32 => 4,
            Kind::F16 | Kind::Bf16 => 2,
            Kind::Q4_0 => 18,
            Kind::Q4_1 => 20,
            Kind::Q5_0 => 22,
            Kind::Q5_1 => 24,
            Kind::Q8_0 => 34,
            Kind::Q4K => 144,
            Kind::Q5K => 176,
            Kind::Q6K => 210,
        }
    }
}
