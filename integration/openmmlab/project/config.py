# A small training for the real train.py: 64 samples in batches of 8, twice over. One process takes 16
# iterations, two that train together take 8 each.
custom_imports = dict(imports=['cpu_gloo', 'tiny'], allow_failed_imports=False)
default_scope = 'mmengine'
model = dict(type='TinyModel')
train_dataloader = dict(
    batch_size=8,
    num_workers=0,
    persistent_workers=False,
    pin_memory=False,
    dataset=dict(type='TinyData', samples=64),
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'))
train_cfg = dict(by_epoch=True, max_epochs=2)
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.05))
default_hooks = dict(logger=dict(type='LoggerHook', interval=1))
custom_hooks = [dict(type='ResultHook')]
env_cfg = dict(
    cudnn_benchmark=False,
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='gloo'))
# On a CPU the wrapper must not get the default device_ids=[LOCAL_RANK].
model_wrapper_cfg = dict(type='MMDistributedDataParallel', device_ids=None)
randomness = dict(seed=0)
work_dir = './work'
