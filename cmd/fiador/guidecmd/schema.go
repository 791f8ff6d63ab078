package guidecmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/specs"
)

// Schema returns the command that prints a schema, as it is embedded in the program. An
// unknown name is exit status 2.
func Schema(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema NAME",
		Short: "print a JSON Schema",
		Long: `Schema prints one of the JSON Schemas (draft-07) that fiador checks documents
against. NAME is one of these:
  ` + strings.Join(specs.Names(), "\n  ") + `

Exit codes:
  0  the schema was printed
  2  there is no schema of that name`,
		Example: `  fiador schema intent >intent.schema.json
  fiador schema run-result`,
		Args:      cli.ExactArgs("NAME"),
		ValidArgs: specs.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			b, ok := specs.Schema(args[0])
			if !ok {
				return cli.Choice("schema", args[0], specs.Names())
			}
			return a.Print(b)
		},
	}
}
