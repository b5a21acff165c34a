// The methods that come with this package, by name.
export { ascc } from "./ascc/ascc.js";
export { childTuning } from "./child-tuning.js";
export { discreteAdversarial } from "./discrete-adversarial.js";
export { energy } from "./energy.js";
export { freelb } from "./freelb.js";
export { hashVote } from "./hash-vote.js";
export { lora } from "./lora.js";
export { mixout } from "./mixout.js";
export { mof } from "./mof.js";
export { ptwd } from "./ptwd.js";
export { rDrop } from "./r-drop.js";
export { randomWindows } from "./random-windows.js";
export { rift } from "./rift/rift.js";
export { rose } from "./rose/rose.js";
export { smart } from "./smart.js";
