// Formats the page's modules and these files: `node format.js` rewrites them, `node format.js --check` names those that
// are not in the one style and exits with 1.

import { globSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "..", "..");
const TOOLS = createRequire(join(ROOT, ".venv", "page", "package.json"));
const PATHS = ["fastprof/viewer/static/**/*.js", "tests/page/*.js"];
const STYLE = {
  quoteStyle: "preferDouble",
  "arrowFunction.useParentheses": "force",
  nextControlFlowPosition: "sameLine",
  useBraces: "maintain",
  preferHanging: true,
  "arrayExpression.preferHanging": "never",
  preferSingleLine: true,
  // Lists and records that begin on a line of their own stay open: their author wants them read as tables.
  "arrayExpression.preferSingleLine": false,
  "objectExpression.preferSingleLine": false,
};

const isCheck = process.argv.includes("--check");
const { createFromBuffer } = TOOLS("@dprint/formatter");
const formatter = createFromBuffer(readFileSync(TOOLS("@dprint/typescript").getPath()));
formatter.setConfig({ lineWidth: 120, indentWidth: 2, useTabs: false }, STYLE);
const files = PATHS.flatMap((path) => globSync(path, { cwd: ROOT })).map((path) => join(ROOT, path));
if (!files.length) throw new Error("no files to format");
let changed = 0;
for (const filePath of files) {
  const fileText = readFileSync(filePath, "utf8");
  const formatted = formatter.formatText({ filePath, fileText });
  if (formatted === fileText) continue;
  changed += 1;
  console.log(`${isCheck ? "not formatted" : "formatted"}: ${relative(ROOT, filePath)}`);
  if (!isCheck) writeFileSync(filePath, formatted);
}
process.exitCode = isCheck && changed ? 1 : 0;
