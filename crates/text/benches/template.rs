//! How long a chat template takes to render: `cargo bench --bench template`.

use gorgon_text::template::{ChatTemplate, Render, message};
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 9;
const RENDERINGS: u32 = 5000;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny");
    let template = ChatTemplate::load(&folder).expect("the model that comes along has a template");
    let messages = [message("user", "What is 17 plus 25? Answer with a number, please.")];
    let render = Render { add_generation_prompt: true, ..Render::default() };
    let round = || {
        let started = Instant::now();
        for _ in 0..RENDERINGS {
            std::hint::black_box(template.render(&messages, &render).expect("a question is rendered"));
        }
        started.elapsed().as_secs_f64() * 1e6 / f64::from(RENDERINGS)
    };
    let mut found: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    found.sort_by(f64::total_cmp);
    println!("microseconds per rendering: {:.1} ({:.1}–{:.1})", found[ROUNDS / 2], found[0], found[ROUNDS - 1]);
}
