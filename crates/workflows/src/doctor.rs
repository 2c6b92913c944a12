//! The devices and limits of this machine, and its problems.

use crate::settings::Settings;
use crate::units::bytes;
use gorgon_hub::{HubError, HubOptions};
use gorgon_kernels::Isa;
use gorgon_model::device::{cuda_devices, wgpu_devices};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use sysinfo::{Disks, MemoryRefreshKind, RefreshKind, System};

/// Less free memory or disk than this is a problem even for small models.
const SCARCE: u64 = 2_000_000_000;

/// The findings.
pub struct Report {
    /// Facts by name, for people.
    pub facts: Vec<(&'static str, String)>,
    details: Value,
    /// Each problem, with something to do about it.
    pub problems: Vec<(String, String)>,
}

impl Report {
    /// As a JSON document.
    pub fn document(&self) -> Value {
        let problem = |(problem, hint): &(String, String)| json!({ "problem": problem, "hint": hint });
        let mut document = self.details.clone();
        document["ok"] = self.problems.is_empty().into();
        document["problems"] = self.problems.iter().map(problem).collect();
        document
    }
}

/// Products of the processor that decide about speed, in words that follow the name of its instruction set.
fn products(isa: Isa) -> String {
    let all = [
        (isa.has_pair_products(), ", products in bf16"),
        (isa.has_tiles(), ", tiles of bytes"),
        (isa.has_byte_products(), ", top-1 tokens without all logits"),
    ];
    all.iter().filter(|(has, _)| *has).map(|(_, words)| *words).collect()
}

/// Examines devices, memory, disk and cache.
pub fn examine(settings: &Settings) -> Report {
    let refresh = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(refresh);
    // Some systems keep this to themselves; then there is nothing to complain about.
    let (total, available) = system.map_or((0, u64::MAX), |system| (system.total_memory(), system.available_memory()));
    let hub = HubOptions::from_env();
    let cache = hub.as_ref().map_or_else(|_| PathBuf::from("."), |options| options.cache.clone());
    let free = free_disk(&cache);
    let (cuda, wgpu) = (cuda_devices(), wgpu_devices());
    let driver = nvidia_driver();
    let (threads, isa) = (rayon::current_num_threads(), Isa::detect());
    let gpu = |built: bool, count: usize| match (built, count) {
        (false, _) => "not built in".to_owned(),
        (true, 0) => "built in, no device found".to_owned(),
        (true, n) => format!("{n} device(s)"),
    };
    // Of the device that --device names; nothing on the CPU.
    let device = settings.compute().ok().and_then(|compute| Some((compute.choice(), compute.free_bytes()?)));
    let mut facts = vec![
        ("gorgon", settings.build.to_string()),
        ("cpu", format!("{threads} threads, {}{}", isa.name(), products(isa))),
        ("cuda", gpu(cfg!(feature = "cuda"), cuda)),
        ("wgpu", gpu(cfg!(feature = "wgpu"), wgpu)),
        ("driver", driver.clone().unwrap_or_else(|| "no NVIDIA driver".to_owned())),
        ("memory", format!("{} available of {}", bytes(available), bytes(total))),
        ("disk", free.map_or("unknown".to_owned(), |free| format!("{} free at {}", bytes(free), cache.display()))),
    ];
    facts.extend(device.map(|(name, free)| ("gpu memory", format!("{} available on {name}", bytes(free)))));
    let details = json!({
        "version": settings.build.version, "commit": settings.build.commit, "features": settings.build.features,
        "cpu": { "threads": threads, "instructions": isa.name(),
            "bf16_products": isa.has_pair_products(), "int8_tiles": isa.has_tiles(),
            "int8_prefilter": isa.has_byte_products(),
        },
        "cuda": { "built": cfg!(feature = "cuda"), "devices": cuda },
        "wgpu": { "built": cfg!(feature = "wgpu"), "devices": wgpu },
        "driver": driver,
        "memory": { "total_bytes": total, "available_bytes": available },
        "device_memory": device.map(|(name, free)| json!({ "device": name.to_string(), "available_bytes": free })),
        "disk": { "free_bytes": free },
        "cache": cache.display().to_string(),
    });
    Report { facts, details, problems: problems(settings, available, &hub, free) }
}

/// Problems, each with something to do about it.
fn problems(
    settings: &Settings,
    available: u64,
    hub: &Result<HubOptions, HubError>,
    free: Option<u64>,
) -> Vec<(String, String)> {
    let mut problems = vec![];
    let mut add = |problem: String, hint: &str| problems.push((problem, hint.to_owned()));
    if available < SCARCE {
        add(
            format!("only {} of memory are available", bytes(available)),
            "close other programs, or use a smaller model or --dtype f16",
        );
    }
    if let Err(failure) = settings.compute() {
        add(failure.message().to_owned(), "use --device cpu, which works everywhere");
    }
    let options = match hub {
        Ok(options) => options,
        Err(error) => {
            add(error.to_string(), "set HF_HOME to a folder that you own");
            return problems;
        }
    };
    let cache = options.cache.display();
    if !options.endpoint.starts_with("http://") && !options.endpoint.starts_with("https://") {
        add(
            format!("HF_ENDPOINT is {:?}, no address of a hub", options.endpoint),
            "unset it, or begin it with https://",
        );
    }
    if let Some(free) = free.filter(|&free| free < SCARCE) {
        let problem = format!("only {} of disk are free for the cache {cache}", bytes(free));
        add(problem, "free some space, or set HF_HOME to a folder on another disk");
    }
    if let Some(reason) = not_writable(&options.cache) {
        let problem = format!("the cache {cache} cannot be written: {reason}");
        add(problem, "set HF_HOME to a folder that you own");
    }
    problems
}

/// The NVIDIA kernel driver's own description (Linux).
fn nvidia_driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    text.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The nearest folder on the way to `path` that exists.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new(".")).to_path_buf()
}

/// Free bytes of the disk that holds `path`.
fn free_disk(path: &Path) -> Option<u64> {
    let path = existing(path).canonicalize().ok()?;
    let disks = Disks::new_with_refreshed_list().ok()?;
    let holding = disks.iter().filter(|disk| path.starts_with(disk.mount_point()));
    holding.max_by_key(|disk| disk.mount_point().as_os_str().len()).map(|disk| disk.available_space())
}

/// Why nothing can be written below `path`, if so.
fn not_writable(path: &Path) -> Option<String> {
    tempfile::tempfile_in(existing(path)).err().map(|error| error.to_string())
}
