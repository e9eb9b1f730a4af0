//! `cargo xtask scratch`: does each library work for somebody who has nothing but its README?
//!
//! For each of them a crate is made in a temporary folder, outside the workspace, that depends on it by its path and whose whole program is the
//! README's first example. It is built and run.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The libraries, by their folders.
const LIBRARIES: &[&str] = &[
    "procarray",
    "slru",
    "bufpin",
    "snapmap",
    "multixact",
    "txn-manager",
    "support/ids",
    "support/sync",
    "support/redo",
];

pub(crate) fn run() -> Result<()> {
    for folder in LIBRARIES {
        let folder = crate::root().join(folder);
        scratch(&folder).with_context(|| {
            format!(
                "the first example of {} does not work in a crate of its own",
                folder.join("README.md").display()
            )
        })?;
    }
    println!("{} libraries work from their README alone", LIBRARIES.len());
    Ok(())
}

fn scratch(library: &Path) -> Result<()> {
    let readme = fs::read_to_string(library.join("README.md"))?;
    let example = first_example(&readme).context("it has no ```rust block")?;
    let manifest = fs::read_to_string(library.join("Cargo.toml"))?;
    let name = package_name(&manifest).context("its Cargo.toml names no package")?;
    let folder = TempDir::new()?;
    let manifest = format!(
        "[package]\nname = \"scratch\"\nedition = \"2024\"\n\n[dependencies]\n{name} = {{ path = {:?} }}\n",
        library.display().to_string()
    );
    fs::write(folder.path().join("Cargo.toml"), manifest)?;
    // The versions that everything else is tested with.
    fs::copy(
        crate::root().join("Cargo.lock"),
        folder.path().join("Cargo.lock"),
    )?;
    fs::create_dir(folder.path().join("src"))?;
    fs::write(folder.path().join("src/main.rs"), program(&example))?;
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet"])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", crate::root().join("target/scratch"))
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The first Rust block, with the lines that its page hides.
fn first_example(readme: &str) -> Option<String> {
    let block = readme.split("```rust\n").nth(1)?.split("```").next()?;
    let shown = |line: &str| line.strip_prefix("# ").unwrap_or(line).to_string() + "\n";
    Some(block.lines().map(shown).collect())
}

/// The example as a program of its own.
fn program(example: &str) -> String {
    if example.contains("Ok::<") {
        format!("fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{example}}}\n")
    } else {
        format!("fn main() {{\n{example}}}\n")
    }
}

fn package_name(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find(|line| line.starts_with("name = "))?;
    line.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_example_becomes_a_program() {
        let readme = "# a\n\n```text\nno\n```\n```rust\nuse a::b;\n# b()?;\n# Ok::<(), E>(())\n```\n```rust\nno\n```\n";
        let example = first_example(readme).unwrap();
        assert_eq!(example, "use a::b;\nb()?;\nOk::<(), E>(())\n");
        assert!(program(&example).starts_with("fn main() -> Result"));
        assert_eq!(program("b();\n"), "fn main() {\nb();\n}\n");
        assert_eq!(first_example("# nothing"), None);
    }

    #[test]
    fn the_package_is_named_by_its_manifest() {
        assert_eq!(package_name("[package]\nname = \"a-b\"\n"), Some("a-b"));
    }
}
