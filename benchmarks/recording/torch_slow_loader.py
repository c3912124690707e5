"""A DataLoader whose dataset decodes each item slowly. Run as: train.py [WORKERS [SECONDS]]"""

import sys
import time

import torch


class Photos(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        return self.decode_photo(number)

    def decode_photo(self, number):
        time.sleep(0.0005)
        return torch.full((256,), float(number % 7)), number % 10


def main(workers=0, seconds=20.0):
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = torch.utils.data.DataLoader(Photos(), batch_size=32, num_workers=workers)
    end, began, count = time.monotonic() + seconds, time.process_time(), 0
    for features, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        count += 1
        if time.monotonic() > end:
            break
    used_ms = 1000 * (time.process_time() - began) / count
    print(f"{count / seconds:.1f} steps a second, {used_ms:.3f} ms of processor time each, loss {loss.item():.3f}")


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:], strict=False)))
