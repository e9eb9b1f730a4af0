//! The log in files.

use std::fs;
use std::path::Path;

use tempfile::tempdir;
use txnkit_redo::{FileStore, LogStore, Lsn, Record, Recovered, RedoError, RedoLog};

const SEGMENT: u64 = 256;

fn open(folder: &Path) -> (RedoLog<FileStore>, Recovered) {
    RedoLog::open(FileStore::open(folder, SEGMENT).unwrap()).unwrap()
}

fn fill(log: &RedoLog<FileStore>, records: usize) -> Vec<Lsn> {
    let ends = (0..records)
        .map(|i| log.append(1, &[&vec![i as u8; i % 100]]).unwrap())
        .collect();
    log.flush_all().unwrap();
    ends
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "lock").collect();
    names.sort();
    names
}

#[test]
fn a_log_goes_on_where_it_was_closed() {
    let folder = tempdir().unwrap();
    let (log, _) = open(folder.path());
    fill(&log, 30);
    let before: Vec<Record> = log.records(Lsn::new(0)).map(Result::unwrap).collect();
    let end = log.end();
    drop(log);
    let (log, recovered) = open(folder.path());
    assert_eq!(
        (recovered.records, recovered.end, recovered.cut_bytes),
        (30, end, 0)
    );
    fill(&log, 5);
    let after: Vec<Record> = log.records(Lsn::new(0)).map(Result::unwrap).collect();
    assert_eq!((&after[..30], after.len()), (&before[..], 35));

    let files = names(folder.path());
    assert_eq!(files[0], "0000000000000000.redo");
    assert_eq!(files[1], format!("{SEGMENT:016x}.redo"));
    let longest = files
        .iter()
        .map(|name| fs::metadata(folder.path().join(name)).unwrap().len());
    assert_eq!(longest.max(), Some(SEGMENT));
}

#[test]
fn what_was_appended_but_not_flushed_is_not_there() {
    let folder = tempdir().unwrap();
    let (log, _) = open(folder.path());
    fill(&log, 3);
    log.append(1, &[b"not flushed"]).unwrap();
    drop(log);
    assert_eq!(open(folder.path()).1.records, 3);
}

/// The last bytes are lost at every length there is, across the ends of files.
#[test]
fn a_torn_tail_is_cut_across_files() {
    let folder = tempdir().unwrap();
    let (log, _) = open(folder.path());
    // At once, so that every record is the first to say that something is durable: nothing.
    let ends = fill(&log, 30);
    drop(log);
    let end = ends[29].get();
    for len in (0..end).rev().step_by(7) {
        let mut start = 0;
        for name in names(folder.path()) {
            let path = folder.path().join(name);
            let here = fs::metadata(&path).unwrap().len();
            if start >= len && start > 0 {
                fs::remove_file(path).unwrap();
            } else if start + here > len {
                fs::File::options()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .set_len(len - start)
                    .unwrap();
            }
            start += here;
        }
        let (log, recovered) = open(folder.path());
        let kept = ends.iter().filter(|end| end.get() <= len).count();
        assert_eq!(recovered.records, kept as u64, "cut off at {len}");
        assert_eq!(recovered.end, log.end());
    }
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempdir().unwrap();
    let (log, _) = open(folder.path());
    fill(&log, 60);
    drop(log);
    let files = names(folder.path());
    fs::remove_file(folder.path().join(&files[2])).unwrap();
    let error = FileStore::open(folder.path(), SEGMENT)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&files[2]) && error.contains("missing"),
        "{error}"
    );
}

#[test]
fn old_files_are_removed_and_the_rest_is_read() {
    let folder = tempdir().unwrap();
    let (log, _) = open(folder.path());
    let ends = fill(&log, 60);
    let files = names(folder.path()).len();
    log.remove_before(ends[30]).unwrap();
    assert!(names(folder.path()).len() < files);
    assert_eq!(log.records(ends[30]).count(), 29);
    drop(log);
    let (log, recovered) = open(folder.path());
    assert!(recovered.start <= ends[30] && recovered.start > Lsn::new(0));
    assert_eq!(
        log.records(recovered.start).count() as u64,
        recovered.records
    );
    assert_eq!(log.records(ends[30]).count(), 29);

    let end = log.end();
    log.remove_before(end).unwrap();
    drop(log);
    let (log, recovered) = open(folder.path());
    assert_eq!((log.end(), recovered.end), (end, end), "positions go on");
    fill(&log, 2);
    assert_eq!(log.records(end).count(), 2);
}

/// All that is left of a log is a file with no whole record in it: positions go on from its name.
#[test]
fn positions_never_go_back() {
    let folder = tempdir().unwrap();
    let name = format!("{:016x}.redo", 4096);
    fs::write(folder.path().join(name), [0; 100]).unwrap();
    let (log, recovered) = open(folder.path());
    assert_eq!((recovered.records, recovered.cut_bytes), (0, 100));
    assert_eq!(log.end(), Lsn::new(4096));
    fill(&log, 1);
    drop(log);
    assert_eq!(open(folder.path()).1.records, 1);
}

#[test]
fn a_second_opening_is_refused() {
    let folder = tempdir().unwrap();
    let first = FileStore::open(folder.path(), SEGMENT).unwrap();
    let error = FileStore::open(folder.path(), SEGMENT)
        .unwrap_err()
        .to_string();
    assert!(error.contains("open already"), "{error}");
    drop(first);
    assert!(FileStore::open(folder.path(), SEGMENT).is_ok());
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FileStore::open(file.join("log"), SEGMENT)
        .unwrap_err()
        .to_string();
    assert!(error.contains("file/log"), "{error}");
    assert!(FileStore::open(folder.path(), 0).is_err());
}

#[test]
fn a_segment_size_may_change() {
    let folder = tempdir().unwrap();
    let (log, _) = open(folder.path());
    fill(&log, 20);
    drop(log);
    let store = FileStore::open(folder.path(), 1000).unwrap();
    assert!(store.end() > 0);
    let (log, recovered) = RedoLog::open(store).unwrap();
    assert_eq!(recovered.records, 20);
    fill(&log, 20);
    drop(log);
    let (_, recovered) = open(folder.path());
    assert_eq!(recovered.records, 40);
}

/// A folder that becomes read-only in the middle: the log fails with the file's name and stays so.
#[test]
fn a_file_that_cannot_be_made_fails_the_log() {
    let folder = tempdir().unwrap();
    let (log, _) = open(folder.path());
    fill(&log, 3);
    // The next segment's name is taken by a folder.
    let end = names(folder.path()).len() as u64 * SEGMENT;
    fs::create_dir(folder.path().join(format!("{end:016x}.redo"))).unwrap();
    log.append(1, &[&[0; 300]]).unwrap();
    let error = log.flush_all().unwrap_err();
    assert!(matches!(error, RedoError::Failed(_)), "{error}");
    assert!(
        error.to_string().contains(&format!("{end:016x}.redo")),
        "{error}"
    );
    assert_eq!(log.append(1, &[b"more"]), Err(error));
}
