// Converts library errors about flags and arguments to the user's terms.

package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/config"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	flagError = regexp.MustCompile(`^invalid argument (".*") for "(?:-\w, )?(--[\w-]+)" flag: (.*)$`)
	argsError = regexp.MustCompile(`^(accepts at most|requires at least|accepts) (\d+) arg\(s\), (?:only )?received (\d+)$`)
	argsWords = map[string]string{"accepts at most": "it takes at most", "requires at least": "it needs at least", "accepts": "it takes exactly"}
)

// spoken returns a command's name as users type it, such as "schedules plan".
func spoken(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "perennial ") }

// plainFlag returns an error that says which value a flag expects, or that the command has no
// such flag.
func plainFlag(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(unknown.GetSpecifiedName()) > 1 {
		return fmt.Errorf("%s has no flag --%s%s (see `%s --help`)", spoken(c), unknown.GetSpecifiedName(), nearestFlag(c, unknown.GetSpecifiedName()), c.CommandPath())
	}
	m := flagError.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	why := m[3]
	switch {
	case strings.Contains(why, "ParseBool"):
		why = "true or false is expected"
	case strings.HasPrefix(why, "time: "):
		why = "a time is expected, such as 72h, 15m or 30s"
	case strings.Contains(why, "must be formatted as key=value"):
		why = "key=value is expected"
	}
	return fmt.Errorf("%s %s: %s", m[2], m[1], why)
}

// nearestFlag suggests a flag with a similar spelling. It returns "" if no flag is similar.
func nearestFlag(c *cobra.Command, name string) (words string) {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := config.Nearest(name, names, min(3, len(name)/2)); near != "" {
		return ", did you mean --" + near + "?"
	}
	return ""
}

// plainArgs returns an error that says how many arguments a command expects.
func plainArgs(err error, args []string) error {
	m := argsError.FindStringSubmatch(err.Error())
	if m == nil && strings.HasPrefix(err.Error(), "unknown command") {
		return fmt.Errorf("it takes no argument, and was given %q", strings.Join(args, " "))
	}
	if m == nil {
		return err
	}
	unit := "arguments"
	if m[2] == "1" {
		unit = "argument"
	}
	return fmt.Errorf("%s %s %s, and has %s", argsWords[m[1]], m[2], unit, m[3])
}

// span is a flag for a duration, which may be in days.
type span struct{ of *time.Duration }

// Set parses a duration such as 3d, 72h or 1d12h.
func (v span) Set(text string) error {
	of, err := config.ParseSpan(text)
	if err != nil || of <= 0 {
		return errors.New("a time over 0 is expected, such as 3d, 72h or 15m")
	}
	*v.of = of
	return nil
}

func (v span) String() string {
	if v.of == nil || *v.of == 0 {
		return ""
	}
	return v.of.String()
}

// Type returns the word for the flag's value in the help.
func (v span) Type() string { return "time" }

var _ pflag.Value = span{}
