import type { Command } from "@commander-js/extra-typings";
import * as ablation from "../analyze/ablation.js";
import * as consistency from "../analyze/consistency.js";
import * as distance from "../analyze/distance.js";
import * as geometry from "../analyze/geometry.js";
import * as interpolation from "../analyze/interpolation.js";
import * as landscape from "../analyze/landscape.js";
import * as probe from "../analyze/probe.js";
import * as tradeoff from "../analyze/tradeoff.js";
import type { CommandModule } from "../command.js";
import type { Io } from "../io.js";
import { formatHelpExamples } from "../options.js";

const analyses: readonly { name: string; summary: string; module: CommandModule }[] = [
  { name: "distance", summary: "how far runs moved from the pre-trained weights (RIFT fig. 2)", module: distance },
  { name: "tradeoff", summary: "accuracy under attacks against clean accuracy (RIFT fig. 4)", module: tradeoff },
  { name: "ablation", summary: "what one option does to accuracy and robustness", module: ablation },
  { name: "geometry", summary: "where features lie, by t-SNE on the circle (RIFT fig. 3)", module: geometry },
  {
    name: "landscape",
    summary: "the loss around models, in two random directions (ROSE figs. 1 and 2)",
    module: landscape,
  },
  {
    name: "interpolation",
    summary: "loss and accuracy on the line through two models (ROSE fig. 4)",
    module: interpolation,
  },
  { name: "probe", summary: "which feature a model learns where it has the choice (ROSE fig. 3)", module: probe },
  {
    name: "consistency",
    summary: "how often two dropouts give different predictions (ROSE table 4)",
    module: consistency,
  },
];

export function define(command: Command, io: Io): void {
  for (const { name, summary, module } of analyses) {
    const sub = command
      .command(name)
      .description(summary)
      .showHelpAfterError(`Run \`temper analyze ${name} --help\` for what it takes.`);
    module.define(sub, io);
  }
  command.addHelpText(
    "after",
    `\nEach writes NAME.json and NAME.svg (with --png NAME.png too) into the first run's analysis/ folder, where temper report finds them.\n${formatHelpExamples(
      "temper analyze distance runs/imdb-standard-seed0 runs/imdb-ascc-seed0 runs/imdb-ascc+rift-seed0",
      "temper analyze tradeoff runs",
      "temper analyze landscape runs/sst2-standard-seed0 runs/sst2-rose-seed0 --pretrained --png",
    )}`,
  );
}
