// Calls one function of a library and writes its reply to standard output.
import { join } from "node:path";
import process from "node:process";
import vm from "node:vm";

// The library may replace these.
const write = process.stdout.write.bind(process.stdout);
const exit = process.exit.bind(process);
const { parse, stringify } = JSON;

// load imports a module as a file of the work folder would.
const load = new vm.Script("(name) => import(name)", {
  filename: join(process.cwd(), "fiador.mjs"),
  importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
}).runInThisContext();
const { emitWarning } = process;
process.emitWarning = () => {}; // Node warns at the first use that this way to load is experimental
await load("node:process");
process.emitWarning = emitWarning;

function find(from, names) {
  let receiver;
  for (const name of names) {
    [receiver, from] = [from, from?.[name]];
  }
  return typeof from === "function" ? from.bind(receiver) : undefined;
}

async function call({ import_path, function: path, args }) {
  const module = await load(import_path);
  const names = path.split(".");
  const target = find(module, names) ?? find(module.default, names);
  if (!target) throw new TypeError(`${path} is not a function of ${import_path}`);
  return await target(...args);
}

// exact refuses what JSON would leave out or write as something else.
function exact(key, value) {
  const lost = typeof value === "function" || typeof value === "symbol" || value instanceof Map || value instanceof Set;
  if (lost || (typeof value === "number" && !Number.isFinite(value))) throw new TypeError("the result is not JSON");
  return value;
}

async function answer(request) {
  try {
    const result = await call(request);
    return stringify({ result: result === undefined ? null : result }, exact);
  } catch (error) {
    let message = "";
    let type = "Error";
    try {
      message = String(error?.message ?? error).toWellFormed();
      type = String(error?.name ?? typeof error).toWellFormed();
      process.stderr.write(`${error?.stack ?? message}\n`);
    } catch {
      // the error cannot be read
    }
    return stringify({ error: { type, message } });
  }
}

let input = "";
for await (const part of process.stdin.setEncoding("utf8")) input += part;
const request = parse(input);
const line = `\n${request.reply} ${await answer(request)}\n`;
write(line, () => {
  process.removeAllListeners("exit");
  exit(0);
});
