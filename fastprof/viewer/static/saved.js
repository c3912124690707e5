// The page of a saved report.

import { start } from "./app.js";
import { FileSource } from "./file_source.js";

const source = new FileSource();
start(() => source);
