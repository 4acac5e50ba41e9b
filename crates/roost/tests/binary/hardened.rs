//! What the linker made of the program: nothing that an attacker could count on. Reads the ELF
//! headers of the binary under test, which is linked as a release is. And what the unit in
//! `packaging` leaves a server that was taken over, as `systemd-analyze` judges it.

use std::fs;
use std::path::Path;
use std::process::Command;

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut all = [0; 8];
    all[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(all)
}

#[test]
fn the_program_is_position_independent_and_its_relocations_are_read_only() {
    const DYNAMIC: u64 = 2;
    const GNU_STACK: u64 = 0x6474_e551;
    const GNU_RELRO: u64 = 0x6474_e552;
    const FLAGS: u64 = 30;
    const BIND_NOW: u64 = 8;
    let file = fs::read(Path::new(env!("CARGO_BIN_EXE_roost"))).expect("the program");
    assert_eq!(&file[..5], b"\x7fELF\x02", "a 64-bit ELF file");
    assert_eq!(number(&file, 16, 2), 3, "position-independent");
    let (at, size) = (number(&file, 32, 8) as usize, number(&file, 54, 2) as usize);
    let count = number(&file, 56, 2) as usize;
    let headers: Vec<usize> = (0..count).map(|n| at + n * size).collect();
    let header = |kind| {
        let found = headers.iter().find(|at| number(&file, **at, 4) == kind);
        *found.unwrap_or_else(|| panic!("no program header {kind:x}"))
    };
    assert_eq!(
        number(&file, header(GNU_STACK) + 4, 4) & 1,
        0,
        "the stack is not executable"
    );
    header(GNU_RELRO);
    let dynamic = header(DYNAMIC);
    let (start, length) = (
        number(&file, dynamic + 8, 8) as usize,
        number(&file, dynamic + 32, 8) as usize,
    );
    let mut entries = (start..start + length).step_by(16);
    let flags = entries.find(|at| number(&file, *at, 8) == FLAGS);
    let flags = flags.map_or(0, |at| number(&file, at + 8, 8));
    assert!(flags & BIND_NOW != 0, "all is bound before anything runs");
}

/// Where there is no systemd nothing is judged: the unit is for where there is.
#[test]
fn the_unit_leaves_little_to_a_server_that_was_taken_over() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/roost.service");
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=15", "--no-pager"])
        .arg(&unit)
        .output();
    let Ok(judged) = judged else { return };
    let (out, err) = (
        String::from_utf8_lossy(&judged.stdout),
        String::from_utf8_lossy(&judged.stderr),
    );
    if !out.contains("Overall exposure level") {
        return; // Of a version that cannot look at a file.
    }
    assert!(judged.status.success(), "above 1.5: {out}{err}");
}
