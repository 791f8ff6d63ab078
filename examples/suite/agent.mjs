// An agent for `fiador suite run`, over HTTP: POST /run-case. `node agent.mjs PORT` serves it.
import { createServer } from "node:http";

createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    if (request.url === "/health") return response.end();
    const { case_id, version, input } = JSON.parse(Buffer.concat(parts));
    const number = input.user.match(/\d+/)[0];
    if (number === "99") {
      response.writeHead(500, { "content-type": "text/plain" });
      return response.end(`no order ${number}, asked with ${request.headers.authorization}\n`);
    }
    const final_output = { content_type: "json", content: { order: number, state: "sent" } };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ case_id, version, proposed_actions: [], events: [], final_output }));
  });
}).listen(Number(process.argv[2] ?? 8787), "127.0.0.1", function () {
  console.log(`http://127.0.0.1:${this.address().port}`);
});
