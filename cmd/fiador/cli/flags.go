package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fiador/fiador/specs"
)

// flagError is the usage error for a flag that cannot be parsed. Its hint names the flag
// that was probably meant, or says what the flag takes.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		dashes, name := "--", unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			dashes = "-"
			name, _, _ = strings.Cut(short, "=")
		}
		return Usage(nearFlag(cmd, name), "unknown flag %q", dashes+name)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Usage(takes(missing.GetFlag()), "--%s has no value", missing.GetFlag().Name)
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag, why := wrong.GetFlag(), wrong.Unwrap().Error()
		hint := takes(flag)
		_, library := errors.AsType[*strconv.NumError](err)
		switch kind := flag.Value.Type(); {
		case kind == "bool":
			why, hint = "neither true nor false", fmt.Sprintf("write --%s alone, or leave it out", flag.Name)
		case kind == "duration":
			why = "not a time such as 500ms, 30s or 5m"
		case library && kind == "float64":
			why = "not a number"
		case library:
			why = "not a whole number, or too large"
		case errors.Is(err, errTwice):
			hint = fmt.Sprintf("leave all --%s out but one", flag.Name)
		}
		return Usage(hint, "--%s %q: %s", flag.Name, wrong.GetValue(), why)
	}
	return Usage(HelpHint(cmd), "%s", err)
}

// nearFlag returns the hint for an unknown flag: the format of this name, the flag with the
// nearest name, or the flags that begin with the name.
func nearFlag(cmd *cobra.Command, name string) string {
	var known, begin []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
			if name != "" && strings.HasPrefix(f.Name, name) {
				begin = append(begin, "--"+f.Name)
			}
		}
	})
	if formats, ok := cmd.GetFlagCompletionFunc("format"); ok {
		if list, _ := formats(cmd, nil, ""); slices.Contains(list, name) {
			return fmt.Sprintf("did you mean %q?", "--format "+name)
		}
	}
	if near := specs.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", "--"+near)
	}
	switch len(begin) {
	case 0:
		return HelpHint(cmd)
	case 1:
		return fmt.Sprintf("did you mean %q?", begin[0])
	}
	return "one of: " + strings.Join(begin, ", ")
}

// takes returns the hint for a flag that has no value, or a wrong one.
func takes(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(f)
	return strings.TrimRight(fmt.Sprintf("--%s %s", f.Name, name), " ") + ": " + usage
}
