//! Asking for a password: from an argument, a file or the terminal. Owns the bounds of what is
//! read; what a password may consist of is the server's to say.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zeroize::Zeroizing;

use crate::cli::PasswordSource;
use crate::exit::Failure;
use crate::secret::Secret;

/// Bytes read of a password file: the longest password and its line feed.
const FILE_BYTES_MAX: u64 = 1_026;

/// The password for `jid`.
///
/// # Errors
/// There is none to be had.
pub(crate) fn obtain(source: &PasswordSource, jid: &str) -> Result<Secret, Failure> {
    match (&source.password, &source.password_file) {
        (Some(password), _) => Ok(password.clone()),
        (None, Some(file)) if file == Path::new("-") => first_line(io::stdin().lock(), "stdin"),
        (None, Some(file)) => {
            let name = file.display().to_string();
            let opened = File::open(file).map_err(|e| Failure::Failed(format!("{name}: {e}")))?;
            first_line(opened, &name)
        }
        (None, None) => ask(jid),
    }
}

fn first_line(source: impl Read, name: &str) -> Result<Secret, Failure> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 1));
    source
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() as u64 >= FILE_BYTES_MAX {
        return Err(Failure::Failed(format!(
            "{name}: its first line is too long for a password"
        )));
    }
    let password = std::str::from_utf8(line)
        .map_err(|_| Failure::Failed(format!("{name}: the password is not UTF-8")))?;
    if password.is_empty() {
        return Err(Failure::Failed(format!(
            "{name}: its first line is empty, not a password"
        )));
    }
    Ok(Secret::new(password.to_owned()))
}

fn ask(jid: &str) -> Result<Secret, Failure> {
    let no_terminal = |error: io::Error| {
        let advice = "give the password with --password-file FILE (- for standard input)";
        Failure::Usage(format!(
            "there is no terminal to ask for a password at ({error}): {advice}"
        ))
    };
    let prompt = |text: String| rpassword::prompt_password(text).map(Secret::new);
    let password = prompt(format!("Password of {jid}: ")).map_err(no_terminal)?;
    let again = prompt("The same again: ".to_owned()).map_err(no_terminal)?;
    if password != again {
        return Err(Failure::Failed(
            "the two passwords differ; nothing was changed".to_owned(),
        ));
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_file_is_the_password() {
        let cases: [(&[u8], Option<&str>); 7] = [
            (b"secret\n", Some("secret")),
            (b"secret", Some("secret")),
            (b"secret\r\nmore\n", Some("secret")),
            (b" with spaces \n", Some(" with spaces ")),
            (b"\n", None),
            (b"", None),
            (b"\xff\n", None),
        ];
        for (bytes, expected) in cases {
            let password = first_line(bytes, "file").ok();
            assert_eq!(password.as_ref().map(Secret::reveal), expected, "{bytes:?}");
        }
        assert!(first_line([b'x'; 2_000].as_slice(), "file").is_err());
        let longest = [b'x'; 1_023];
        assert!(first_line(longest.as_slice(), "file").is_ok());
    }
}
