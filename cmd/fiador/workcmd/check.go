package workcmd

import (
	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/kernel"
)

// Check returns the command that says what a plan would do.
func Check(a *cli.App) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "check PLAN",
		Short: "say what a plan would run, in which order, and whether the policy allows it",
		Long: `Check reads a plan as run does, puts its items in levels, and decides the intent of each
under the policy. It runs nothing and changes nothing. It prints one line of canonical
JSON: the levels, and for each item its verdict and the reasons.

Exit codes:
  0  the policy allows every item
  1  it does not
  2  the plan, the agents or the policy cannot be used`,
		Example: "  fiador work check plan.json --agents agents.json",
		Args:    cli.ExactArgs("PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.openPlan(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			c, err := o.Preview(cmd.Context(), o.plan, sumOf(o))
			if err := placed(o.text, err); err != nil {
				return err
			}
			for _, it := range c.Items {
				a.RejectIf(it.Verdict != kernel.OutcomeBundle)
			}
			b, err := workflow.PreviewBytes(c)
			if err != nil {
				return err
			}
			return a.Print(b)
		},
	}
	f.register(cmd)
	return cmd
}
