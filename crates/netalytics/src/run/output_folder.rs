//! A folder that is written to after privileges have been dropped. The new user must be able to create files in it,
//! even if it lies below a folder that only root can enter. So it is created, given to the user, and opened before, and
//! accessed through the open descriptor.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::run::privileges::RunUser;

/// See the module documentation.
pub struct OutputFolder {
    path: PathBuf,
    /// Open descriptor, if the path may become inaccessible.
    opened: Option<File>,
}

impl OutputFolder {
    /// Creates missing parts of `path`. Folders that were created, or are empty and owned by root, are given to the new
    /// user.
    pub fn prepare(path: &Path, becoming: RunUser) -> anyhow::Result<OutputFolder> {
        let made = make(path, becoming)?;
        let opened = match becoming {
            RunUser::Ourselves => None,
            RunUser::Another { user, group } => {
                let folder = File::open(path)?;
                let facts = folder.metadata()?;
                if !made && facts.uid() == 0 && fs::read_dir(path)?.next().is_none() {
                    fchown(&folder, Some(user), Some(group))?;
                } else if !made && !may_write(&facts, user, group) {
                    bail!(
                        "user {user}, to which the capture switches, may not write to it: chown it, or use --user NAME"
                    );
                }
                Some(folder)
            }
        };
        Ok(OutputFolder {
            path: path.to_owned(),
            opened,
        })
    }

    /// A path that is valid for any user until the process ends.
    pub fn reach(self) -> PathBuf {
        match self.opened {
            Some(folder) => format!("/proc/self/fd/{}", folder.into_raw_fd()).into(),
            None => self.path,
        }
    }
}

/// Whether a folder's mode allows this user to create files.
fn may_write(folder: &Metadata, user: u32, group: u32) -> bool {
    const WRITE_AND_ENTER: u32 = 0o3;
    let shift = match (folder.uid() == user, folder.gid() == group) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    folder.mode() >> shift & WRITE_AND_ENTER == WRITE_AND_ENTER
}

/// Creates a missing folder and its parents; returns whether it was missing.
fn make(path: &Path, becoming: RunUser) -> io::Result<bool> {
    const OWNER_ONLY: u32 = 0o700;
    if path.is_dir() {
        return Ok(false);
    }
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        make(parent, becoming)?;
    }
    DirBuilder::new().mode(OWNER_ONLY).create(path)?;
    if let RunUser::Another { user, group } = becoming {
        std::os::unix::fs::lchown(path, Some(user), Some(group))?;
    }
    Ok(true)
}
