package storeurl

import (
	"fmt"
	"io"
	"os"

	"github.com/ringfence/ringfence/internal/limits"
)

// ReadFile reads a file that the settings name, such as a CA. One of more than limits.SettingsFileBytes,
// as a device without end, is an error.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f)
}

// ReadAll is ReadFile of a file that is open.
func ReadAll(f *os.File) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, limits.SettingsFileBytes+1))
	if err == nil && len(text) > limits.SettingsFileBytes {
		err = fmt.Errorf("%s is longer than %d bytes", f.Name(), limits.SettingsFileBytes)
	}
	return text, err
}
