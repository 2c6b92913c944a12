//! The definitions of a recorded step's decisions.

/// The depth of each node; the root's is 0.
pub fn depths(parents: &[usize]) -> Vec<usize> {
    let mut depths = vec![0; parents.len()];
    for node in 1..parents.len() {
        depths[node] = depths[parents[node]] + 1;
    }
    depths
}

/// The nodes on the way from the root on to the first child each time, without the root.
pub fn first_path(parents: &[usize]) -> Vec<usize> {
    let mut path = vec![];
    for (node, &parent) in parents.iter().enumerate().skip(1) {
        if parent == path.last().copied().unwrap_or(0) {
            path.push(node);
        }
    }
    path
}

/// The path to the deepest node all of whose path are their parents' argmaxes, the first of the deepest.
pub fn accept(parents: &[usize], tokens: &[i32], argmax: &[i32]) -> Vec<usize> {
    let (depths, mut valid) = (depths(parents), vec![true; parents.len()]);
    for node in 1..parents.len() {
        valid[node] = valid[parents[node]] && tokens[node] == argmax[parents[node]];
    }
    let mut node = 0;
    for candidate in 0..parents.len() {
        if valid[candidate] && depths[candidate] > depths[node] {
            node = candidate;
        }
    }
    let mut path = vec![node];
    while node > 0 {
        node = parents[node];
        path.insert(0, node);
    }
    path
}

#[cfg(test)]
mod tests;
