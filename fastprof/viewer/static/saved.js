// The page of a saved report.

import { start } from "./app.js";
import { library, scripted } from "./chart.js";
import { bytes } from "./embedded.js";
import { FileSource } from "./file_source.js";

library.load = async () => {
  const script = new Blob([await bytes("plotly")], { type: "text/javascript" });
  return scripted(URL.createObjectURL(script));
};

const source = new FileSource();
start(() => source);
