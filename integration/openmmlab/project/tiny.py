"""What a user's project adds to mmengine: a model, a data set, and a hook that prints each rank's result."""

import sys

import torch
from mmengine.dist import all_reduce, barrier, get_rank, get_world_size
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, HOOKS, MODELS


@MODELS.register_module()
class TinyModel(BaseModel):

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs, target, mode='tensor'):
        output = self.layer(inputs)
        return {'loss': ((output - target) ** 2).mean()} if mode == 'loss' else output


@DATASETS.register_module()
class TinyData(torch.utils.data.Dataset):

    def __init__(self, samples):
        self.inputs = torch.randn(samples, 4, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return {'inputs': self.inputs[index], 'target': self.inputs[index].sum().reshape(1)}


@HOOKS.register_module()
class ResultHook(Hook):
    """mmengine logs on rank 0 only. The loss here is the mean over all ranks."""

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.loss = outputs['loss'].detach().clone()

    def after_train(self, runner):
        all_reduce(self.loss, op='mean')
        weight = sum(float(parameter.detach().double().sum()) for parameter in runner.model.parameters())
        # One write: the workers of a node share standard output.
        sys.stdout.write(f'RESULT rank={get_rank()} world={get_world_size()} iterations={runner.iter} '
                         f'loss={self.loss.item():.6f} weight={weight:.8f}\n')
        sys.stdout.flush()

    def after_run(self, runner):
        barrier()  # nobody leaves while another still communicates
