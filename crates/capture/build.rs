//! Compiles the C behind DPDK's inline functions when the feature `dpdk` is on; otherwise does nothing.

fn main() {
    println!("cargo:rerun-if-changed=src/sys/dpdk_shim.c");
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    let mut shim = cc::Build::new();
    shim.file("src/sys/dpdk_shim.c")
        .flag("-Wno-deprecated-declarations");
    // As they are: the headers need an -include and an instruction set.
    pkg_config("--cflags").iter().for_each(|flag| {
        shim.flag(flag);
    });
    shim.compile("netalytics_dpdk");
    for flag in pkg_config("--libs-only-L") {
        println!(
            "cargo:rustc-link-search=native={}",
            flag.trim_start_matches("-L")
        );
    }
    // Libraries called directly; DPDK loads drivers at its start.
    for library in [
        "rte_ethdev",
        "rte_mbuf",
        "rte_mempool",
        "rte_ring",
        "rte_eal",
    ] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

#[cfg(feature = "dpdk")]
fn pkg_config(what: &str) -> Vec<String> {
    let output = std::process::Command::new("pkg-config")
        .args([what, "libdpdk"])
        .output();
    let output = output.ok().filter(|o| o.status.success());
    let output = output.expect(
        "the feature dpdk needs libdpdk and pkg-config: apt install libdpdk-dev pkg-config",
    );
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}
