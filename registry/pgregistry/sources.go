package pgregistry

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"

	"github.com/jackc/pgservicefile"
	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry/driver"
)

// sources are what says how to connect, in the order in which libpq and pgx go by it: the URL, the service
// that is named, the environment.
type sources struct {
	query    url.Values
	service  map[string]string
	password bool   // the URL has one before its host, or a file is named for it
	home     string // in which there are files that count although nobody names them; "": not known
}

// readSources reads them. What pgx can't read either it leaves to pgx.
func readSources(text string, shared bool) (sources, error) {
	u, err := url.Parse(text)
	if err != nil || text != "" && u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return sources{}, fmt.Errorf("the URL can't be used; expected postgres://user@host:port/database: %w", driver.ErrInvalid)
	}
	s := sources{query: u.Query()}
	_, s.password = u.User.Password()
	if me, err := user.Current(); err == nil {
		s.home = me.HomeDir
	}
	path, _ := s.get("servicefile", "PGSERVICEFILE")
	if path == "" && s.home != "" {
		path = filepath.Join(s.home, ".pg_service.conf")
	}
	name, _ := s.get("service", "PGSERVICE")
	if name == "" || path == "" {
		return s, nil
	}
	if err := checkFile("servicefile", path, storeurl.Believed, shared); err != nil {
		return s, err
	}
	if file, err := pgservicefile.ReadServicefile(path); err == nil {
		if service, err := file.GetService(name); err == nil {
			s.service = service.Settings
		}
	}
	return s, nil
}

// get is a setting, and where it comes from.
func (s sources) get(name, variable string) (value, from string) {
	if s.query.Has(name) {
		return s.query.Get(name), name
	}
	if value, ok := s.service[name]; ok {
		return value, name + " of the service"
	}
	return os.Getenv(variable), variable
}

// files are the settings that name files, which pgx reads with no regard to what they are and who else can
// get at them.
var files = []namedFile{
	{"sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt", storeurl.Believed},
	{"sslcert", "PGSSLCERT", ".postgresql/postgresql.crt", storeurl.Believed},
	{"sslkey", "PGSSLKEY", ".postgresql/postgresql.key", storeurl.Secret},
	{"passfile", "PGPASSFILE", ".pgpass", storeurl.Secret},
	{"servicefile", "PGSERVICEFILE", "", storeurl.Believed}, // that of the home is looked at when a service is named
}

type namedFile struct {
	name, variable string
	home           string // the one below the home, which counts where nobody names another
	trust          storeurl.Trust
}

// file is the path that a setting comes to, and where it comes from; "": none is read.
func (s sources) file(f namedFile) (path, from string) {
	path, from = s.get(f.name, f.variable)
	_, ofService := s.service[f.name]
	if path != "" || s.query.Has(f.name) || ofService || f.home == "" || s.home == "" || !s.wants(f.name) {
		return path, from
	}
	return filepath.Join(s.home, f.home), "the default for " + f.name
}

// wants tells whether a file that nobody names is used: that of passwords where none is given, those for
// TLS where there may be any.
func (s sources) wants(name string) bool {
	if name == "passfile" {
		password, _ := s.get("password", "PGPASSWORD")
		return password == "" && !s.password
	}
	mode, _ := s.get("sslmode", "PGSSLMODE")
	return mode != "disable"
}

// checkFiles refuses what pgx would wait for, or read without an end, and, unless shared, what others have
// a hand in. Of what is missing pgx tells.
func (s sources) checkFiles(shared bool) error {
	for _, f := range files {
		path, from := s.file(f)
		if path == "" {
			continue
		}
		if err := checkFile(from, path, f.trust, shared); err != nil {
			return err
		}
	}
	return nil
}

func checkFile(from, path string, trust storeurl.Trust, shared bool) error {
	if shared {
		trust = storeurl.Anybody
	}
	if err := storeurl.CheckTrust(path, trust); errors.Is(err, driver.ErrInvalid) {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// unusedCA is the error for a CA that is given while some connection may be made to a server that nobody
// holds against it. What connections there may be pgx has worked out of all settings by now. A CA that
// nobody gave, the file under ~/.postgresql, is none.
func (s sources) unusedCA(cc *pgx.ConnConfig) error {
	ca, from := s.get("sslrootcert", "PGSSLROOTCERT")
	if ca == "" {
		return nil
	}
	configs := []*tls.Config{cc.TLSConfig}
	for _, f := range cc.Fallbacks {
		configs = append(configs, f.TLSConfig)
	}
	for _, t := range configs {
		if t != nil && (!t.InsecureSkipVerify || t.VerifyPeerCertificate != nil) {
			continue
		}
		mode, _ := s.get("sslmode", "PGSSLMODE")
		return fmt.Errorf("%s is given, and with sslmode=%s it would be used for nothing: no server, or not each, would be held against it; expected sslmode=verify-full and no sockets, or no CA: %w",
			from, cmp.Or(mode, "prefer, the default"), driver.ErrInvalid)
	}
	return nil
}
