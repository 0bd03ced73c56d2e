package storeurl

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/ringfence/ringfence/internal/limits"
)

// CheckScram fails when a message of a server, in a login by SCRAM (RFC 5802), asks for more iterations
// than limits.ScramIterations: they are made before anybody looks at a time-out.
func CheckScram(message []byte) error {
	for attribute := range bytes.SplitSeq(message, []byte(",")) {
		text, is := bytes.CutPrefix(attribute, []byte("i="))
		if !is {
			continue
		}
		if n, err := strconv.Atoi(string(text)); err != nil || n > limits.ScramIterations {
			return fmt.Errorf("the server asks for %.30q iterations of its login by SCRAM; expected at most %d", text, limits.ScramIterations)
		}
	}
	return nil
}
