package storeurl

import (
	"strings"
	"testing"
)

func TestALoginHashesOnlySoOften(t *testing.T) {
	t.Parallel()
	for message, ok := range map[string]bool{
		"": true, "v=abc": true, "e=other-error": true, "r=i=7,s=i,i=4096": true, "r=a,s=b,i=1048576": true,
		"r=a,s=b,i=1048577": false, "r=a,s=b,i=2000000000": false, "r=a,s=b,i=99999999999999999999": false,
		"r=a,s=b,i=4096,i=2000000000": false, "i=2000000000,r=a": false, "r=a,s=b,i=": false, "r=a,s=b,i=0x7fffffff": false,
	} {
		err := CheckScram([]byte(message))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "at most 1048576") {
			t.Errorf("%q: %v", message, err)
		}
	}
}
