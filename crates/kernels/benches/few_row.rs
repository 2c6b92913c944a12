//! The few-row product by number of rows: time, and the share of the processor's multiply-add peak.

use gorgon_kernels::Isa;
use gorgon_kernels::few_row_matmul::{Packed, WeightDtype, few_row_matmul};
use std::time::Instant;

fn main() {
    let shapes = [(256, 768), (256, 1280), (640, 256), (256, 4096), (768, 2304), (4096, 16384)];
    for (d_in, d_out) in shapes {
        let w: Vec<f32> = (0..d_in * d_out).map(|i| (i % 17) as f32 * 0.01 - 0.08).collect();
        for dtype in [WeightDtype::F32, WeightDtype::F16] {
            let packed = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap();
            print!("{d_in}x{d_out} {dtype:?}:");
            for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 32, 64] {
                let x = vec![0.5f32; rows * d_in];
                let mut y = vec![0f32; rows * d_out];
                let mut best = f64::MAX;
                for _ in 0..(1 << 28) / (d_in * d_out) + 5 {
                    let start = Instant::now();
                    few_row_matmul(Isa::detect(), &x, &packed, None, &mut y);
                    best = best.min(start.elapsed().as_secs_f64());
                }
                print!(" {rows}: {:.1} us {:.0} GF", best * 1e6, 2e-9 * (rows * d_in * d_out) as f64 / best);
            }
            println!();
        }
    }
}
