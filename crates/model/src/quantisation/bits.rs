//! Unsigned numbers of 2 to 8 bits in streams of 32-bit words, low bits first. A number may straddle two words.

/// Words that hold `count` numbers.
pub(super) fn words(count: usize, bits: u32) -> usize {
    (count as u128 * u128::from(bits)).div_ceil(32) as usize
}

/// Number `index` of the stream whose word `i` is `word(i)`.
pub(super) fn at(index: usize, bits: u32, word: impl Fn(usize) -> u32) -> u8 {
    let bit = index * bits as usize;
    let (first, shift) = (bit / 32, (bit % 32) as u32);
    let mut value = word(first) >> shift;
    if shift + bits > 32 {
        value |= word(first + 1) << (32 - shift);
    }
    (value & mask(bits)) as u8
}

/// The largest number of so many bits.
pub(super) fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// The numbers of a stream of little-endian words.
pub(super) fn unpack(stream: &[u8], bits: u32, out: &mut [u8]) {
    match bits {
        8 => out.copy_from_slice(&stream[..out.len()]),
        4 => {
            for (pair, byte) in out.chunks_mut(2).zip(stream) {
                pair[0] = byte & 15;
                if let Some(high) = pair.get_mut(1) {
                    *high = byte >> 4;
                }
            }
        }
        _ => {
            let word = |i: usize| {
                let bytes = &stream[4 * i..4 * i + 4];
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
            };
            out.iter_mut().enumerate().for_each(|(i, value)| *value = at(i, bits, word));
        }
    }
}

/// Writes numbers of 4 or 8 bits as a stream of little-endian words. What is left of the last word is zero.
pub(super) fn pack(numbers: &[u8], bits: u32, stream: &mut [u8]) {
    stream.fill(0);
    match bits {
        8 => stream[..numbers.len()].copy_from_slice(numbers),
        _ => {
            for (pair, byte) in numbers.chunks(2).zip(stream) {
                *byte = pair[0] & 15 | pair.get(1).map_or(0, |high| high << 4);
            }
        }
    }
}

/// Number `n` of a stream of four-bit numbers whose words hold eight in the order 0, 2, 4, 6, 1, 3, 5, 7.
pub(super) fn interleaved(line: &[u32], n: usize) -> u8 {
    const PLACES: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
    ((line[n / 8] >> (4 * PLACES[n % 8])) & 15) as u8
}
