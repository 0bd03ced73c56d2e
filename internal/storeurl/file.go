package storeurl

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
)

// open opens a regular file, or the null device.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkKind(path, info); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// checkKind fails with fault.Invalid for what is no regular file.
func checkKind(path string, info fs.FileInfo) error {
	var kind string
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeDevice != 0:
		if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
			return nil
		}
		kind = "a device"
	default:
		kind = "no file"
	}
	return fmt.Errorf("%s is %s; expected a file: %w", path, kind, fault.Invalid)
}

// ReadFile reads a file that the settings name, such as a CA: a regular one of at most
// limits.SettingsFileBytes.
func ReadFile(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limits.SettingsFileBytes+1))
	if err == nil && len(text) > limits.SettingsFileBytes {
		err = fmt.Errorf("%s is longer than %d bytes", f.Name(), limits.SettingsFileBytes)
	}
	return text, err
}
