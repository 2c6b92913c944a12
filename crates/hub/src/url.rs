//! Parts of addresses.

/// Scheme, host and port of a URL.
pub(crate) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?', '#']).map_or(url, |end| &url[..host + end])
}

/// Whether a URL leads to this machine.
pub fn is_loopback(url: &str) -> bool {
    let host = origin(url).rsplit("://").next().unwrap_or_default();
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|h| host == *h || host.strip_prefix(h).is_some_and(|p| p.starts_with(':')))
}
