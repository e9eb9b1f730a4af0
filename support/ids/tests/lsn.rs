//! Log positions as text.

use txnkit_ids::{Lsn, ParseLsnError};

#[test]
fn positions_are_shown_and_read_as_two_hexadecimal_halves() {
    for (number, text) in [
        (0, "0/0"),
        (0x16_B374_D848, "16/B374D848"),
        (u64::MAX, "FFFFFFFF/FFFFFFFF"),
        (1 << 32, "1/0"),
    ] {
        assert_eq!(Lsn::new(number).to_string(), text);
        assert_eq!(text.parse(), Ok(Lsn::new(number)));
    }
    assert_eq!("0/0000002a".parse(), Ok(Lsn::new(42)));
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "",
        "/",
        "1/",
        "/1",
        "12",
        "1/2/3",
        "+1/2",
        "1/+2",
        "123456789/0",
        "0/123456789",
        "g/0",
        " 1/0",
    ] {
        assert_eq!(text.parse::<Lsn>(), Err(ParseLsnError), "{text:?}");
    }
}

#[test]
fn position_zero_asks_for_no_flush() {
    assert!(!Lsn::INVALID.is_valid());
    assert!(Lsn::new(1).is_valid());
    assert_eq!(Lsn::new(u64::MAX).checked_add(1), None);
}
