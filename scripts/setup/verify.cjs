// Run by build.mjs in a separate process: loads the addon named on the command line, adds three
// numbers, and prints the sum and the libtorch that computed it.
const FLOAT32 = 6; // c10::ScalarType::Float
try {
  const addon = require(/** @type {string} */ (process.argv[2]));
  const numbers = addon.create(Float32Array.of(1, 2, 3), [3], FLOAT32, FLOAT32);
  const sum = new Float32Array(addon.read(addon.op("aten::sum")(numbers), FLOAT32))[0];
  const { library, configuration } = addon.versions();
  console.log(JSON.stringify({ sum, library, version: /TORCH_VERSION=(\d+\.\d+\.\d+)/.exec(configuration)?.[1] }));
} catch (error) {
  console.error(String(error).split("\n")[0]);
  process.exitCode = 1;
}
