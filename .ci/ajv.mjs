// Compiles every JSON Schema of a folder in the strict mode of ajv, and validates the
// examples of each by its own schema:
//
//   node .ci/ajv.mjs SPECS FOLDER
//
// FOLDER has ajv in node_modules. A warning counts as an error.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [folder, modules] = process.argv.slice(2);
const Ajv = createRequire(join(resolve(modules), "ajv.mjs"))("ajv").default;
const names = readdirSync(folder).filter((name) => name.endsWith(".schema.json"));
let faults = 0;
const fault = (name, text) => {
  console.error(`${name}: ${text}`);
  faults++;
};
for (const name of names) {
  const warn = (text) => fault(name, text);
  try {
    const ajv = new Ajv({ strict: true, allErrors: true, logger: { log() {}, warn, error: warn } });
    const schema = JSON.parse(readFileSync(join(folder, name), "utf8"));
    const validate = ajv.compile(schema);
    if (!schema.examples?.length) fault(name, "no example");
    for (const example of schema.examples ?? [])
      if (!validate(example)) fault(name, `an example is not valid: ${ajv.errorsText(validate.errors)}`);
  } catch (err) {
    fault(name, err.message);
  }
}
console.log(`${names.length} schemas, ${faults} faults`);
process.exit(faults || !names.length ? 1 : 0);
