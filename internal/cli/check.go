package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// kinds of checks, with what they measure and their default thresholds.
var checkKinds = []struct{ name, short, unit string }{
	{"lag", "Check how many records wait to be processed (default: from 1,000 on a warning, from 10,000 on critical)", "records"},
	{"age", "Check for how long the oldest of these has waited (default: from 1m on a warning, from 10m on critical)", "time"},
	{"dead-letters", "Check how many records were given up (default: from 1 on a warning, from 100 on critical)", "records"},
	{"owners", "Check for partitions and shards with work that no living member owns (default: from 1 on critical)", "units"},
	{"all", "Check all of these by their defaults, and what \"ringfence status\" finds", ""},
}

func (a *app) checkCommand() *cobra.Command {
	var all []*cobra.Command
	for _, k := range checkKinds {
		all = append(all, a.checkOf(k.name, k.short, k.unit))
	}
	return a.holder(&cobra.Command{
		Use:   "check",
		Short: "Compare lag, age, dead letters and owners with thresholds, for monitoring",
		Long: `Compare groups and subscriptions with thresholds, for monitoring. The exit code is 0 when
all are below, and else 1; with --nagios it is 0 (ok), 1 (warning), 2 (critical) or 3
(unknown), and the first line is that of a plugin. --format prometheus writes numbers for
Prometheus, as its textfile collector reads them, and ends with 0 unless it could not
look.`,
		Example: `  ringfence check all
  ringfence check lag billing --warn 500 --crit 5000
  ringfence check age --warn 30s --nagios
  ringfence check all --format prometheus > ringfence.prom`,
	}, nil, all...)
}

// writesPrometheus marks a command that has --format prometheus.
var writesPrometheus = map[string]string{"formats": "prometheus"}

func (a *app) checkOf(check, short, unit string) *cobra.Command {
	var warn, crit string
	var opts admin.CheckOptions
	cmd := &cobra.Command{Use: check + " [NAME...]", Short: short, Args: cobra.ArbitraryArgs, Annotations: writesPrometheus}
	cmd.Long = short + ".\nNAME is a group or a subscription; without one it is about all of them."
	cmd.ValidArgsFunction = a.offers(consumerNames)
	fl := cmd.Flags()
	fl.BoolVar(&a.plugin, "nagios", false, "print and end as plugins of Nagios do: 0 ok, 1 warning, 2 critical, 3 unknown")
	if unit != "" {
		fl.StringVar(&warn, "warn", "", "from this `value` on it is a warning ("+unit+")")
		fl.StringVar(&crit, "crit", "", "from this `value` on it is critical ("+unit+")")
		cmd.PreRunE = checked(func() (err error) {
			var wrong error
			opts.Warn, err = threshold("warn", warn, unit)
			opts.Crit, wrong = threshold("crit", crit, unit)
			if err = errors.Join(err, wrong); err == nil && opts.Warn != nil && opts.Crit != nil && *opts.Warn > *opts.Crit {
				err = fmt.Errorf("--warn %s is above --crit %s: expected it below, or the same: %w", warn, crit, fault.Invalid)
			}
			return err
		})
	}
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, names []string) error {
		opts.Names = names
		c, err := rf.Admin().Check(ctx, check, &opts)
		if err != nil {
			return err
		}
		return a.tellCheck(c)
	})
	return cmd
}

// threshold reads a number, or a time in seconds; nil: none is given.
func threshold(flag, text, unit string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	var n float64
	if unit == "time" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("--%s %s: expected a time such as 30s or 5m: %w", flag, text, fault.Invalid)
		}
		n = d.Seconds()
	} else {
		whole, err := strconv.ParseInt(text, 10, 64)
		if err != nil || whole < 0 {
			return nil, fmt.Errorf("--%s %s: expected a number such as 100: %w", flag, text, fault.Invalid)
		}
		n = float64(whole)
	}
	return &n, nil
}

var nagiosCodes = map[api.CheckState]int{api.CheckOK: 0, api.CheckWarning: 1, api.CheckCritical: 2, api.CheckUnknown: 3}

// tellCheck prints a check; the error has its exit code.
func (a *app) tellCheck(c *api.Check) error {
	text := checkReport
	switch {
	case a.global.format == "prometheus":
		r := a.newReport()
		prometheusReport(r, c)
		_, err := a.stdout.Write([]byte(r.String()))
		return err
	case a.plugin:
		text = nagiosReport
	}
	if err := emit(a, c, text); err != nil {
		return err
	}
	code := nagiosCodes[c.State]
	if !a.plugin {
		code = min(code, fault.ExitFailure)
	}
	if code == 0 {
		return nil
	}
	return &exitError{fmt.Errorf("check %s is %s: %w", c.Check, c.State, errReported), code}
}

func checkReport(r *report, c *api.Check) {
	tableOf(r, []string{"CHECK", "NAME", "VALUE", "WARN", "CRIT", "STATE"}, c.Measures, func(m api.Measure) []cell {
		value := right(valueText(&m, m.Value))
		state := warnIf(m.State == api.CheckWarning, left(string(m.State)))
		if m.Problem != "" {
			value, state.text = right("-"), string(m.State)+": "+m.Problem
		}
		return []cell{left(m.Check), left(m.What + " " + m.Name), value, right(valueText(&m, m.Warn)), right(valueText(&m, m.Crit)), alarmIf(m.State == api.CheckCritical, state)}
	})
	for _, f := range c.Findings {
		findingLines(r, &f, c.At.Time())
	}
	if len(c.Measures)+len(c.Findings) == 0 {
		r.line("%s is %s: there is nothing to check", c.Check, string(c.State))
		return
	}
	r.line("%s is %s", c.Check, string(c.State))
}

func valueText(m *api.Measure, v float64) string {
	if m.Check != "age" {
		return thousands(int64(v))
	}
	if v == 0 {
		return "0s"
	}
	return ageText(max(1, int64(v*1000)))
}

// nagiosReport is one line: the state, what is wrong, and the numbers as performance data.
func nagiosReport(r *report, c *api.Check) {
	var wrong, data []string
	for _, m := range c.Measures {
		if m.State != api.CheckOK {
			text := m.Problem
			if text == "" {
				text = fmt.Sprintf("%s %s", m.Check, valueText(&m, m.Value))
			}
			wrong = append(wrong, fmt.Sprintf("%s %s: %s", m.What, m.Name, text))
		}
		if m.Problem == "" {
			unit := ""
			if m.Check == "age" {
				unit = "s"
			}
			data = append(data, fmt.Sprintf("'%s %s'=%.6g%s;%.6g;%.6g", m.Name, m.Check, m.Value, unit, m.Warn, m.Crit))
		}
	}
	for _, f := range c.Findings {
		wrong = append(wrong, fmt.Sprintf("%s %s: %s", f.What, f.Name, f.Cause))
	}
	if wrong == nil {
		wrong = []string{plural(len(c.Measures), "value") + " below the thresholds"}
	}
	clean := func(s string) string { return strings.ReplaceAll(s, "|", "/") } // which begins the performance data
	line := fmt.Sprintf("RINGFENCE %s %s: %s", strings.ToUpper(c.Check), strings.ToUpper(string(c.State)), clean(strings.Join(wrong, ", ")))
	if data != nil {
		line += " | " + clean(strings.Join(data, " "))
	}
	r.line("%s", line)
}

// metrics are the numbers of the checks in the words of Prometheus.
var metrics = []struct{ check, name, help string }{
	{"lag", "ringfence_lag_records", "Records that are not processed."},
	{"age", "ringfence_oldest_record_age_seconds", "Age of the oldest record that is not processed."},
	{"dead-letters", "ringfence_dead_letters", "Records that were given up."},
	{"owners", "ringfence_units_without_owner", "Partitions or shards with work and without a living owner."},
}

func prometheusReport(r *report, c *api.Check) {
	gauge := func(name, help string) {
		r.line("# HELP %s %s", name, help)
		r.line("# TYPE %s gauge", name)
	}
	for _, metric := range metrics {
		told := false
		for _, m := range c.Measures {
			if m.Check != metric.check || m.Problem != "" {
				continue
			}
			if !told {
				gauge(metric.name, metric.help)
				told = true
			}
			r.line("%s{kind=%q,name=%q,topic=%q} %v", metric.name, m.What, m.Name, m.Topic, m.Value)
		}
	}
	gauge("ringfence_check_state", "0 ok, 1 warning, 2 critical, 3 unknown.")
	r.line("ringfence_check_state{check=%q} %d", c.Check, nagiosCodes[c.State])
	if c.Check != "all" {
		return
	}
	count := map[api.Severity]int{}
	for _, f := range c.Findings {
		count[f.Severity]++
	}
	gauge("ringfence_findings", "What ringfence status finds.")
	for _, s := range []api.Severity{api.Critical, api.Warning} {
		r.line("ringfence_findings{severity=%q} %d", string(s), count[s])
	}
}
