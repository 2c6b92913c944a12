//! Products with coded weights by number of rows: time, bytes of weights per second, and multiply-adds per second.
//!
//! `cargo bench -p gorgon-kernels --bench quantised -- [MEGABYTES]`: as many matrices as fill so much memory (default
//! 256) take turns, so that weights come from memory and not from a cache.

use gorgon_kernels::Isa;
use gorgon_kernels::few_row_matmul::{Packed, WeightDtype, few_row_matmul};
use gorgon_kernels::quantised_matmul::{
    Activations, CodeBits, QuantisedMatrix, Rounding, ScaleFormat, ScaleSearch, quantised_matmul,
};
use std::time::Instant;

const ROWS: [usize; 8] = [1, 2, 4, 8, 14, 16, 64, 256];

/// Best seconds of a product over matrices in turn.
fn seconds(matrices: usize, rows: usize, mut product: impl FnMut(usize)) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..if rows > 16 { 3 } else { 8 } {
        let started = Instant::now();
        (0..matrices).for_each(&mut product);
        best = best.min(started.elapsed().as_secs_f64() / matrices as f64);
    }
    best
}

fn line(name: &str, bytes: usize, size: usize, time: impl Fn(usize) -> f64) {
    print!("{name:28}");
    let mut one = 0.0;
    for rows in ROWS {
        let seconds = time(rows);
        if rows == 1 {
            one = seconds;
            print!(" {:6.1} GB/s", bytes as f64 / seconds * 1e-9);
        }
        print!("  {rows}: {:4.2} ({:4.0} G/s)", seconds / one, (rows * size) as f64 / seconds * 1e-9);
    }
    println!();
}

fn main() {
    let megabytes = std::env::args().filter_map(|arg| arg.parse::<usize>().ok()).next().unwrap_or(256);
    for (d_in, d_out) in [(2048, 5632), (768, 2304)] {
        println!("{d_in} x {d_out}");
        let w: Vec<f32> = (0..d_in * d_out).map(|i| (i * 7919 % 1009) as f32 * 0.001 - 0.5).collect();
        let x: Vec<f32> = (0..256 * d_in).map(|i| (i * 104_729 % 997) as f32 * 0.002 - 1.0).collect();
        let source = (&w[..], d_in);
        let plain = Packed::pack(d_in, d_out, WeightDtype::F16, &source).unwrap();
        let plains: Vec<_> = (0..(megabytes << 20).div_ceil(plain.bytes()))
            .map(|_| Packed::pack(d_in, d_out, WeightDtype::F16, &source).unwrap())
            .collect();
        line("f16", plain.bytes(), d_in * d_out, |rows| {
            let mut y = vec![0f32; rows * d_out];
            seconds(plains.len(), rows, |i| few_row_matmul(Isa::detect(), &x[..rows * d_in], &plains[i], None, &mut y))
        });
        drop(plains);
        for (bits, group) in [
            (CodeBits::Eight, None),
            (CodeBits::Eight, Some(128)),
            (CodeBits::Eight, Some(32)),
            (CodeBits::Four, Some(128)),
            (CodeBits::Four, Some(32)),
        ] {
            let rounded = rounding(bits, group).round(d_in, d_out, &source).unwrap();
            let pack = || QuantisedMatrix::pack(rounded.codes.clone(), &rounded).unwrap();
            let bytes = pack().bytes();
            let all: Vec<_> = (0..(megabytes << 20).div_ceil(bytes)).map(|_| pack()).collect();
            for activations in [Activations::Eight, Activations::Sixteen, Activations::Exact] {
                let name =
                    format!("{} bits, {}, {activations:?}", bits.bits(), group.map_or("row".into(), |g| g.to_string()));
                line(&name, bytes, d_in * d_out, |rows| {
                    let mut y = vec![0f32; rows * d_out];
                    let x = &x[..rows * d_in];
                    seconds(all.len(), rows, |i| quantised_matmul(Isa::detect(), x, &all[i], activations, None, &mut y))
                });
            }
        }
    }
}

fn rounding(bits: CodeBits, group: Option<usize>) -> Rounding {
    Rounding { bits, group, scale_format: ScaleFormat::F16, search: ScaleSearch::Clipped }
}
