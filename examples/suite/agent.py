"""An agent for `fiador suite run`: one request on standard input, one answer on standard output."""
import json
import sys
import time

ORDERS = {"17": "sent on Monday"}

request = json.load(sys.stdin)
words = request["input"]["user"].rstrip("?.").split()
number = words[-1]
if "Refund" in words:
    print("I am not sure about that.")  # no JSON: a failure of the class invalid_json
    sys.exit()
state = ORDERS.get(number, "not known")
now = int(time.time() * 1000)
print(json.dumps({
    "case_id": request["case_id"],
    "version": request["version"],
    "proposed_actions": [],
    "events": [
        {"type": "tool_call", "ts": now, "call_id": "c1", "tool": "order_state", "args": {"order": number}},
        {"type": "tool_result", "ts": now, "call_id": "c1", "status": "ok", "latency_ms": 0, "payload_summary": {"state": state}},
    ],
    "final_output": {"content_type": "text", "content": f"Order {number} is {state}."},
}))
