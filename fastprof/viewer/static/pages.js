// Which module shows which page. Analyses that are not here are shown by pages/generic.js.

export const PAGES = {
  timeline: () => import("./timeline/page.js"),
  trends: () => import("./pages/trends.js"),
  compare: () => import("./pages/compare.js"),
  query: () => import("./pages/query.js"),
  overview: () => import("./pages/overview.js"),
  input_pipeline: () => import("./pages/input_pipeline.js"),
  op_stats: () => import("./pages/op_stats.js"),
  kernel_stats: () => import("./pages/kernel_stats.js"),
  inference: () => import("./pages/inference.js"),
  steps: () => import("./pages/steps.js"),
  op_profile: () => import("./pages/op_profile.js"),
  hlo_stats: () => import("./pages/hlo_stats.js"),
  roofline: () => import("./pages/roofline.js"),
  memory_profile: () => import("./pages/memory_profile.js"),
  memory_viewer: () => import("./pages/memory_viewer.js"),
  pod_viewer: () => import("./pages/pod_viewer.js"),
  communication: () => import("./pages/communication.js"),
  tf_data: () => import("./pages/tf_data.js"),
  python_time: () => import("./pages/python_time.js"),
  tfprof: () => import("./pages/tfprof.js"),
  hlo: () => import("./pages/hlo.js"),
};

export const generic = () => import("./pages/generic.js");
