//! Ids as JSON.
#![cfg(feature = "serde")]

use txnkit_ids::{Lsn, Xid, XidRun};

#[test]
fn ids_are_plain_numbers() {
    assert_eq!(serde_json::to_string(&Xid::new(77)).unwrap(), "77");
    assert_eq!(
        serde_json::from_str::<Xid>("18446744073709551615").unwrap(),
        Xid::MAX
    );
    assert_eq!(serde_json::to_string(&Lsn::new(5)).unwrap(), "5");
}

#[test]
fn a_run_is_checked_when_read() {
    let run = XidRun::new(Xid::new(10), 4).unwrap();
    assert_eq!(serde_json::to_string(&run).unwrap(), "[10,4]");
    assert_eq!(serde_json::from_str::<XidRun>("[10,4]").unwrap(), run);
    assert!(serde_json::from_str::<XidRun>("[10,0]").is_err());
    assert!(serde_json::from_str::<XidRun>("[2,1]").is_err());
}
