// The page of a server.

import { start } from "./app.js";
import { ServerSource } from "./source.js";

start((run) => new ServerSource(run));
