package spell

import "testing"

func TestAgeIsShort(t *testing.T) {
	t.Parallel()
	for millis, want := range map[int64]string{
		0: "-", -3: "-", 7: "7ms", 4200: "4.2s", 42_000: "42s", 192_000: "3m12s", 18_180_000: "5h3m", 187_200_000: "2d4h",
	} {
		if got := Age(millis); got != want {
			t.Errorf("%d ms is %q; expected %q", millis, got, want)
		}
	}
}

func TestThousandsHaveCommas(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1_234_567: "-1,234,567", -999: "-999"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %q; expected %q", n, got, want)
		}
	}
	if one, more := Plural(1, "line"), Plural(1200, "line"); one != "1 line" || more != "1,200 lines" {
		t.Errorf("%q and %q", one, more)
	}
}
