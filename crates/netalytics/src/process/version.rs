//! `netalytics --version`: version, build settings, and file formats.

use std::sync::LazyLock;

use runner::SUMMARY_FORMAT;

/// Several lines for `--version`; `-V` prints the first one without the commit.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let commit = match env!("NETALYTICS_COMMIT") {
        "" => String::new(),
        commit => format!(" ({commit})"),
    };
    let linked = if cfg!(target_feature = "crt-static") {
        ", static"
    } else {
        ""
    };
    let dpdk = if cfg!(feature = "dpdk") { ", dpdk" } else { "" };
    let mut lines = vec![
        format!("{}{commit}", env!("CARGO_PKG_VERSION")),
        format!("target:   {}{linked}", env!("NETALYTICS_TARGET")),
        "files:    pcap, pcapng, gzip or zstd of either; recordings".into(),
        format!("capture:  af-packet, af-xdp{dpdk}; vxlan, geneve, gre and erspan mirrors"),
        format!("filters:  {}", capture::filter_library()),
        format!(
            "formats:  recording {}, summary {SUMMARY_FORMAT}",
            recording::FORMAT
        ),
    ];
    if !cfg!(feature = "kafka") {
        lines.push("without:  kafka".into());
    }
    lines.join("\n")
}
