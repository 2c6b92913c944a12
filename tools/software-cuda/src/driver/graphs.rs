//! Captures, and graphs that are made of them.

#![allow(non_snake_case, reason = "the names of another library")]

use super::{
    CAPTURE_INVALIDATED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, INVALID_VALUE, SUCCESS, Status, done, give, status,
    told,
};
use crate::stream::{Capture, Node, captures};
use std::ffi::c_int;
use std::sync::Arc;

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: u64, _mode: c_int) -> Status {
    if captures(|captures| captures.begin(stream)) { SUCCESS } else { CAPTURE_UNSUPPORTED }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: u64, graph: *mut *const Capture) -> Status {
    match captures(|captures| captures.end(stream)) {
        None => CAPTURE_UNMATCHED,
        Some(capture) if capture.broken => CAPTURE_INVALIDATED,
        // SAFETY: as NVIDIA's.
        Some(capture) => unsafe { give(graph, Arc::into_raw(Arc::new(capture))) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: u64, told: *mut c_int) -> Status {
    let captured = captures(|captures| captures.of(stream).map(|capture| if capture.broken { 2 } else { 1 }));
    // SAFETY: as NVIDIA's.
    unsafe { give(told, captured.unwrap_or(0)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphGetNodes(graph: *const Capture, nodes: *mut *const Node, count: *mut usize) -> Status {
    // SAFETY: graphs are those of cuStreamEndCapture.
    let (Some(graph), Some(count)) = (unsafe { graph.as_ref() }, unsafe { count.as_mut() }) else {
        return INVALID_VALUE;
    };
    if !nodes.is_null() {
        *count = (*count).min(graph.nodes.len());
        // SAFETY: there is room for so many.
        graph.nodes.iter().take(*count).enumerate().for_each(|(i, node)| unsafe { nodes.add(i).write(node) });
    } else {
        *count = graph.nodes.len();
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphNodeGetType(node: *const Node, kind: *mut c_int) -> Status {
    // SAFETY: nodes are those of cuGraphGetNodes.
    let Some(node) = (unsafe { node.as_ref() }) else { return INVALID_VALUE };
    let number = match node {
        Node::Launch(..) => 0,
        Node::Copy(..) | Node::Send(..) => 1,
        Node::Allocation => 10,
    };
    // SAFETY: as NVIDIA's.
    unsafe { give(kind, number) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut *const Capture,
    graph: *const Capture,
    _flags: u64,
) -> Status {
    if graph.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: graphs are those of cuStreamEndCapture; an executable one shares it.
    unsafe {
        Arc::increment_strong_count(graph);
        give(executable, graph)
    }
}

/// Lets go of a graph.
///
/// # Safety
/// It is one of cuStreamEndCapture's or cuGraphInstantiateWithFlags's.
unsafe fn let_go(graph: *const Capture) -> Status {
    if !graph.is_null() {
        // SAFETY: as promised.
        drop(unsafe { Arc::from_raw(graph) });
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: *const Capture) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { let_go(graph) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(graph: *const Capture) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { let_go(graph) }
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(_graph: *const Capture, _stream: u64) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(graph: *const Capture, stream: u64) -> Status {
    // SAFETY: graphs are those of cuGraphInstantiateWithFlags.
    let Some(graph) = (unsafe { graph.as_ref() }) else { return INVALID_VALUE };
    if captures(|captures| captures.of(stream).map(|capture| capture.broken = true)).is_some() {
        return CAPTURE_UNSUPPORTED;
    }
    let lost = status();
    if lost != SUCCESS {
        return lost;
    }
    told(graph.nodes.iter().try_for_each(done))
}
