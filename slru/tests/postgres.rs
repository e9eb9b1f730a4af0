//! PostgreSQL's own layout: known places, and files that a PostgreSQL 15 server wrote.

mod common;

use std::fs;
use std::path::Path;

use common::{store_error, x};
use slru::{
    FileStore, Layout, Lsn, PageStore, Status, StatusErrorKind, StatusLog, StatusStore, StoreError,
    Xid,
};

/// A server's `pg_xact`, a private copy; its ids are 716 to 7441. What they should be is the business of `servers.rs`.
fn fixture() -> tempfile::TempDir {
    let set = txnkit_pgdata::Set::fixture("basic-15");
    let dir = tempfile::tempdir().unwrap();
    fs::copy(set.path().join("pg_xact/0000"), dir.path().join("0000")).unwrap();
    dir
}

fn open(dir: &Path, oldest: Xid, next: Xid) -> StatusLog<FileStore> {
    let store = FileStore::open(dir, Layout::STATUS, Layout::STATUS.pages(oldest, next)).unwrap();
    StatusLog::open(store, 16, oldest, next).unwrap()
}

#[test]
fn every_status_is_where_postgresql_keeps_it() {
    let places = [
        (3, "0000", 0, 6),
        (32_767, "0000", 8191, 6),
        (32_768, "0000", 8192, 0),
        (1_000_000, "0000", 250_000, 0),
        (1_048_575, "0000", 262_143, 6),
        (1_048_576, "0001", 0, 0),
        (u64::from(u32::MAX), "0FFF", 262_143, 6),
        // An epoch later, the same places.
        ((5 << 32) + 1_048_576, "0001", 0, 0),
    ];
    for (number, file, byte, shift) in places {
        let xid = x(number);
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::create(
            dir.path(),
            Layout::STATUS,
            Layout::STATUS.pages(xid, xid).start,
        )
        .unwrap();
        let log = StatusLog::new(store, 16, xid);
        log.set(xid, Status::Aborted, Lsn::INVALID).unwrap();
        log.flush().unwrap();
        let names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, [file], "{number}");
        let bytes = fs::read(dir.path().join(file)).unwrap();
        assert_eq!(bytes.len() % 8192, 0);
        for (at, found) in bytes.into_iter().enumerate() {
            let wanted = if at == byte { 2 << shift } else { 0 };
            assert_eq!(found, wanted, "{number}: byte {at}");
        }
    }
}

#[test]
fn looking_at_a_server_s_files_does_not_change_them() {
    let dir = fixture();
    let before = fs::read(dir.path().join("0000")).unwrap();
    let log = open(dir.path(), x(716), x(7442));
    for xid in 716..7442 {
        log.get(x(xid)).unwrap();
    }
    log.flush().unwrap();
    assert_eq!(fs::read(dir.path().join("0000")).unwrap(), before);
}

#[test]
fn a_server_s_log_can_be_carried_on_and_opened_again() {
    let dir = fixture();
    let (oldest, next) = (x(716), x(7442));
    let log = open(dir.path(), oldest, next);
    log.set(next, Status::Committed, Lsn::INVALID).unwrap();
    log.set(x(40_000), Status::Aborted, Lsn::INVALID).unwrap();
    log.set(x(40 * 32_768 + 1), Status::Committed, Lsn::INVALID)
        .unwrap();
    let before: Vec<_> = (716..7442).map(|xid| log.get(x(xid)).unwrap()).collect();
    log.flush().unwrap();
    drop(log);

    let log = open(dir.path(), oldest, x(40 * 32_768 + 2));
    let after: Vec<_> = (716..7442).map(|xid| log.get(x(xid)).unwrap()).collect();
    assert_eq!(before, after);
    assert_eq!(log.get(next), Ok(Status::Committed));
    assert_eq!(log.get(x(40_000)), Ok(Status::Aborted));
    // Pages 2 to 39 were never set: they are in the files, and read as zeros.
    for page in 2..40 {
        assert_eq!(log.get(x(page * 32_768 + 9)), Ok(Status::InProgress));
    }
    assert_eq!(log.get(x(40 * 32_768 + 1)), Ok(Status::Committed));
    assert_eq!(
        fs::metadata(dir.path().join("0000")).unwrap().len(),
        262_144
    );
}

#[test]
fn a_short_file_is_an_error_that_names_file_offset_wanted_and_found() {
    for (length, xid, offset, found) in [
        (8192, 32_769, 8192, 0),
        (8192 + 3000, 32_769, 8192, 3000),
        (0, 3, 0, 0),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("0000");
        fs::write(&file, vec![0x55; length]).unwrap();
        let log = open(dir.path(), x(3), x(100_000));
        let error = log.get(x(xid)).unwrap_err();
        let wanted = StoreError::Short {
            file: file.clone(),
            offset,
            wanted: 8192,
            found,
        };
        assert_eq!(store_error(&error), &wanted);
        let text = error.to_string();
        assert!(
            text.contains(&format!("could not access status of transaction {xid}")),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "at offset {offset}: wanted 8192 bytes, found {found}"
            )),
            "{text}"
        );
        assert!(text.contains(file.to_str().unwrap()), "{text}");
        // The same again, and setting it is no way round.
        assert_eq!(log.get(x(xid)).unwrap_err(), error);
        assert_eq!(
            store_error(
                &log.set(x(xid), Status::Committed, Lsn::INVALID)
                    .unwrap_err()
            ),
            &wanted
        );
    }
}

#[test]
fn a_lost_last_page_is_not_covered_up_by_writing_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("0000");
    fs::write(&file, vec![0x55; 8192 + 100]).unwrap();
    let log = open(dir.path(), x(3), x(2 * 32_768));
    log.set(x(2 * 32_768), Status::Committed, Lsn::INVALID)
        .unwrap();
    let error = log.flush().unwrap_err();
    assert_eq!(
        store_error(&error),
        &StoreError::Short {
            file,
            offset: 8192,
            wanted: 8192,
            found: 100
        }
    );
}

#[test]
fn a_missing_file_is_an_error_unless_the_ids_are_out_of_range() {
    let next = x((2 << 32) + 3_868_083_449);
    let oldest = x((1 << 32) + 3_586_221_075);
    let dir = tempfile::tempdir().unwrap();
    // 2^32 ids apart are too many for files that count to 2^32.
    let error = FileStore::open(
        dir.path(),
        Layout::STATUS,
        Layout::STATUS.pages(oldest, next),
    )
    .unwrap_err();
    assert!(matches!(error, StoreError::TooFar { limit: 65_536, .. }));

    let oldest = x((2 << 32) + 3_586_221_075);
    let log = open(dir.path(), oldest, next);
    for too_old in [(2 << 32) + 352, (1 << 32) + 4_000_000_000] {
        assert!(matches!(
            log.get(x(too_old)).unwrap_err().kind(),
            StatusErrorKind::TooOld { .. }
        ));
    }
    let error = log.get(oldest).unwrap_err();
    let segment = 3_586_221_075_u64 / 1_048_576;
    let offset = 3_586_221_075 / 32_768 % 32 * 8192;
    let file = dir.path().join(format!("{segment:04X}"));
    assert_eq!(
        store_error(&error),
        &StoreError::Missing {
            file,
            offset,
            wanted: 8192
        }
    );
    assert!(matches!(
        log.get(x((3 << 32) + 3)).unwrap_err().kind(),
        StatusErrorKind::Future { .. }
    ));
    assert_eq!(log.get(x((2 << 32) + 1)), Ok(Status::Committed));
}

#[test]
fn truncation_removes_a_file_only_when_all_its_pages_precede() {
    let dir = tempfile::tempdir().unwrap();
    let log = StatusLog::new(
        FileStore::create(dir.path(), Layout::STATUS, 0).unwrap(),
        16,
        Xid::FIRST_NORMAL,
    );
    for page in 0..100 {
        log.set(x(page * 32_768 + 7), Status::Committed, Lsn::INVALID)
            .unwrap();
    }
    log.flush().unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["0000", "0001", "0002", "0003"]);
    log.truncate(x(63 * 32_768 + 5)).unwrap();
    assert_eq!(names(), ["0001", "0002", "0003"]);
    log.truncate(x(64 * 32_768)).unwrap();
    assert_eq!(names(), ["0002", "0003"]);
    log.truncate(x(64 * 32_768)).unwrap();
    log.flush().unwrap();
    assert_eq!(names(), ["0002", "0003"]);
    assert_eq!(log.get(x(64 * 32_768 + 7)), Ok(Status::Committed));
}

#[test]
fn names_go_round_with_the_low_half() {
    let dir = tempfile::tempdir().unwrap();
    let first = x((1 << 32) - 32_768);
    let store = FileStore::create(
        dir.path(),
        Layout::STATUS,
        Layout::STATUS.pages(first, first).start,
    )
    .unwrap();
    let log = StatusLog::new(store, 16, first);
    log.set(x((1 << 32) - 1), Status::Committed, Lsn::INVALID)
        .unwrap();
    log.set(x((1 << 32) + 3), Status::Aborted, Lsn::INVALID)
        .unwrap();
    log.flush().unwrap();
    assert!(dir.path().join("0FFF").exists() && dir.path().join("0000").exists());
    log.truncate(x(1 << 32)).unwrap();
    assert!(!dir.path().join("0FFF").exists());
    assert_eq!(log.get(x((1 << 32) + 3)), Ok(Status::Aborted));
}

#[test]
fn no_place_in_the_files_is_used_twice() {
    let dir = tempfile::tempdir().unwrap();
    // Pages 32 to 65 567 are in use: half the circle, 2^31 ids.
    let (oldest, next) = (x(32 * 32_768), x(32 * 32_768 + (1 << 31)));
    for segment in ["0001", "0002", "0800"] {
        fs::write(dir.path().join(segment), vec![0x55; 262_144]).unwrap();
    }
    let log = open(dir.path(), oldest, next);
    log.set(next, Status::Aborted, Lsn::INVALID).unwrap();
    let wanted = StoreError::TooFar {
        page: 65_568,
        first: 32,
        limit: 65_536,
    };
    assert_eq!(store_error(&log.flush().unwrap_err()), &wanted);
    assert_eq!(log.get(oldest), Ok(Status::Committed));
    log.truncate(x(64 * 32_768)).unwrap();
    log.flush().unwrap();
    assert!(!dir.path().join("0001").exists());
    let log = open(dir.path(), x(64 * 32_768), x(next.get() + 1));
    assert_eq!(log.get(x(64 * 32_768)), Ok(Status::Committed));
    assert_eq!(log.get(x(next.get() - 1)), Ok(Status::Committed));
    assert_eq!(log.get(next), Ok(Status::Aborted));
}

#[test]
fn a_directory_with_segments_is_not_begun_anew() {
    let dir = fixture();
    let wanted = StoreError::NotEmpty {
        file: dir.path().join("0000"),
    };
    assert_eq!(
        FileStore::create(dir.path(), Layout::STATUS, 0).unwrap_err(),
        wanted
    );
    // Other names are nobody's.
    fs::remove_file(dir.path().join("0000")).unwrap();
    for other in ["0ABC.tmp", "012G", "1", "abcd", "0000000"] {
        fs::write(dir.path().join(other), "").unwrap();
    }
    FileStore::create(dir.path(), Layout::STATUS, 0).unwrap();
    for segment in ["FFFF", "10000", "0001F"] {
        fs::write(dir.path().join(segment), "").unwrap();
        assert!(
            matches!(
                FileStore::create(dir.path(), Layout::STATUS, 0),
                Err(StoreError::NotEmpty { .. })
            ),
            "{segment}"
        );
        fs::remove_file(dir.path().join(segment)).unwrap();
    }
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = FileStore::open(dir.path().join("pg_xact"), Layout::STATUS, 0..1).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Io {
                tried: "open",
                kind: std::io::ErrorKind::NotFound,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_late_write_does_not_bring_a_removed_file_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::create(dir.path(), Layout::STATUS, 0).unwrap();
    store.truncate(64).unwrap();
    let error = store
        .write(63, &slru::PageBuf::zeroed(), Lsn::INVALID)
        .unwrap_err();
    assert_eq!(
        error,
        StoreError::Truncated {
            page: 63,
            first: 64
        }
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A file that holds more than the control file says: another life's, which PostgreSQL covers with zeros as it goes.
#[test]
fn what_lies_beyond_the_last_page_never_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    for segment in ["0000", "0001", "0003"] {
        fs::write(dir.path().join(segment), vec![0x55; 262_144]).unwrap();
    }
    let log = open(dir.path(), x(3), x(5));
    assert_eq!(log.get(x(32_768)), Ok(Status::InProgress));
    // Page 1 is skipped, and then all of the second file and the beginning of the fourth.
    for page in [2, 100] {
        log.set(x(page * 32_768 + 9), Status::Aborted, Lsn::INVALID)
            .unwrap();
        log.flush().unwrap();
    }
    let log = open(dir.path(), x(3), x(101 * 32_768));
    assert_eq!(log.get(x(4)), Ok(Status::Committed));
    for page in 1..101 {
        for place in [8, 9, 10, 32_767] {
            let aborted = place == 9 && (page == 2 || page == 100);
            let wanted = if aborted {
                Status::Aborted
            } else {
                Status::InProgress
            };
            assert_eq!(log.get(x(page * 32_768 + place)), Ok(wanted), "page {page}");
        }
    }
}

#[test]
fn truncation_removes_what_a_crash_left_and_nothing_that_may_be_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let first = 10 * 1_048_576;
    let left = ["0000", "0001", "0009", "0F00"];
    let kept = [
        "000A", "000B", "012G", "0700", "0ABC.tmp", "1", "10000", "abcd",
    ];
    for name in left.iter().chain(&kept) {
        fs::write(dir.path().join(name), vec![0x55; 262_144]).unwrap();
    }
    let log = open(dir.path(), x(first), x(first + 40 * 32_768));
    log.truncate(x(first + 5 * 32_768)).unwrap();
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, kept);
    assert_eq!(
        log.get(x(first + 39 * 32_768 + 1)),
        Ok(Status::Committed),
        "the file is still read"
    );
}

#[test]
fn what_means_nothing_any_more_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["0000", "FFFF", "0ABC.tmp"] {
        fs::write(dir.path().join(name), vec![0x55; 8192]).unwrap();
    }
    let store = FileStore::create_anew(dir.path(), Layout::STATUS, 0).unwrap();
    let log = StatusLog::new(store, 16, Xid::FIRST_NORMAL);
    assert_eq!(log.get(x(4)), Ok(Status::InProgress));
    log.set(x(5), Status::Aborted, Lsn::INVALID).unwrap();
    log.flush().unwrap();
    assert_eq!(fs::read(dir.path().join("0000")).unwrap()[1], 2 << 2);
    assert!(!dir.path().join("FFFF").exists() && dir.path().join("0ABC.tmp").exists());
}
